"""ciphers, hashes, RSA, elliptic curves, shares, errors, by libraries that cffi or ctypes loads"""

from Crypto.Cipher import AES, ChaCha20_Poly1305
from Crypto.Hash import BLAKE2b, SHA3_256, SHAKE128
from Crypto.Protocol.KDF import scrypt
from Crypto.PublicKey import ECC, RSA
from Crypto.Signature import eddsa, pkcs1_15
from Crypto.Hash import SHA256
from Crypto.Util import number


def work(tell):
    for mode in (AES.MODE_CBC, AES.MODE_CTR, AES.MODE_GCM, AES.MODE_EAX, AES.MODE_SIV):
        options = {"nonce": bytes(8)} if mode == AES.MODE_CTR else {"nonce": bytes(12)} if mode != AES.MODE_CBC else {"iv": bytes(16)}
        cipher = AES.new(bytes(range(32)), mode, **options)
        seals = mode in (AES.MODE_GCM, AES.MODE_EAX, AES.MODE_SIV)
        tell(f"mode {mode}", cipher.encrypt_and_digest(b"x" * 160) if seals else cipher.encrypt(b"x" * 160))
    tell("chacha", ChaCha20_Poly1305.new(key=bytes(32), nonce=bytes(12)).encrypt_and_digest(b"y" * 99))
    tell("hashes", [SHA3_256.new(b"a").hexdigest(), BLAKE2b.new(data=b"a", digest_bits=256).hexdigest(), SHAKE128.new(b"a").read(40)])
    tell("scrypt", scrypt("password", "salt", 32, 1024, 8, 1))
    key = RSA.generate(1024)
    signature = pkcs1_15.new(key).sign(SHA256.new(b"message"))
    pkcs1_15.new(key.public_key()).verify(SHA256.new(b"message"), signature)
    try:
        pkcs1_15.new(key.public_key()).verify(SHA256.new(b"other"), signature)
    except ValueError as error:
        tell("forged", str(error))
    curve = ECC.construct(curve="Ed25519", seed=bytes(range(32)))
    tell("ed25519", eddsa.new(curve, "rfc8032").sign(b"message"))
    tell("point", int((ECC.construct(curve="P-256", d=12345).pointQ * 7).x))
    tell("prime", [number.isPrime(2**127 - 1), number.inverse(3, 2**61 - 1)])
