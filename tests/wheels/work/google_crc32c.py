"""checksums by the library in C"""

import io

import google_crc32c


def work(tell):
    tell("implementation", google_crc32c.implementation)
    data = bytes(range(256)) * 500
    tell("value", google_crc32c.value(data))
    tell("extended", google_crc32c.extend(google_crc32c.value(b"head"), data))
    checksum = google_crc32c.Checksum()
    for at in range(0, len(data), 1000):
        checksum.update(data[at : at + 1000])
    tell("digest", checksum.digest())
    tell("chunks", list(google_crc32c.Checksum().consume(io.BytesIO(data), 4096))[-1])
