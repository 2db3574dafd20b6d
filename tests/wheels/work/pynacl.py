"""boxes, signatures, sealed boxes, hashes, Argon2"""

from nacl import encoding, exceptions, hash, public, pwhash, secret, signing


def work(tell):
    key = secret.SecretBox(bytes(range(32)))
    sealed = key.encrypt(b"message" * 300, bytes(24))
    tell("box", bytes(sealed))
    tell("opened", key.decrypt(sealed))
    signer = signing.SigningKey(bytes(range(32)))
    tell("signed", bytes(signer.sign(b"text")))
    one, other = public.PrivateKey(bytes(range(32))), public.PrivateKey(bytes(range(1, 33)))
    tell("public", bytes(public.Box(one, other.public_key).encrypt(b"x" * 99, bytes(24))))
    tell("sealed", public.SealedBox(one).decrypt(public.SealedBox(one.public_key).encrypt(b"anonymous")))
    tell("hash", [hash.sha512(b"a"), hash.blake2b(b"a", key=b"k", encoder=encoding.RawEncoder), hash.siphash24(b"a", bytes(16))])
    tell("argon", pwhash.argon2id.kdf(32, b"password", bytes(16), opslimit=2, memlimit=1 << 20))
    try:
        key.decrypt(bytes(sealed)[:-1] + b"\0")
    except exceptions.CryptoError as error:
        tell("error", str(error))
