"""hashes, checks, key derivation, refused salts"""

import threading

import bcrypt


def work(tell):
    salt = b"$2b$05$abcdefghijklmnopqrstuu"
    hashed = bcrypt.hashpw(b"password", salt)
    tell("hash", hashed)
    tell("check", [bcrypt.checkpw(b"password", hashed), bcrypt.checkpw(b"other", hashed)])
    tell("kdf", bcrypt.kdf(b"password", b"salt", 40, 50, True))
    results = {}
    threads = [
        threading.Thread(target=lambda i=i: results.update({i: bcrypt.hashpw(b"p%d" % i, salt)})) for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tell("threads", sorted(results.items()))
    try:
        bcrypt.hashpw(b"x", b"no salt")
    except ValueError as error:
        tell("error", str(error))
