"""What the host raises in calls that it interrupts. Derived from KeyboardInterrupt: `except Exception` lets them pass."""


class Interrupted(KeyboardInterrupt):
    """The host has interrupted the call."""

    def __str__(self):
        return super().__str__() or type(self).__doc__


class DeadlineExceeded(Interrupted):
    """The call has exceeded its deadline."""
