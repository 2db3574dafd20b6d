"""Has `threading._shutdown` not wait for an application's thread. Run right before finalization.

Up to Python 3.12, `threading._shutdown` (Lib/threading.py) waits for a lock that is held as long as
the state of the "main thread" lives, which to it is whichever thread first imported `threading`:
unless that is the thread that finalizes, which releases the lock itself and asserts that it is
held. Here that thread belongs to the application, and may live on, or have ended; and the
finalizing thread may have got its identifier.
"""

import sys

if sys.version_info < (3, 13) and "threading" in sys.modules:
    threading = sys.modules["threading"]
    main = threading._main_thread
    if main._tstate_lock is not None:
        if main.ident == threading.get_ident():
            main._tstate_lock.acquire(blocking=False)
        else:
            threading._shutdown_locks.discard(main._tstate_lock)
