"""Ed25519, ECDSA's verification, AES-GCM, PBKDF2, a certificate, a typed error"""

import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, padding
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.x509.oid import NameOID


def work(tell):
    key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    tell("ed25519", key.sign(b"message"))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "example")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(datetime.datetime(2025, 1, 1))
        .not_valid_after(datetime.datetime(2035, 1, 1))
        .sign(key, None)
    )
    tell("certificate", certificate.public_bytes(serialization.Encoding.DER))
    curve = ec.derive_private_key(12345678901234567890, ec.SECP256R1())
    signature = curve.sign(b"message", ec.ECDSA(hashes.SHA256()))
    curve.public_key().verify(signature, b"message", ec.ECDSA(hashes.SHA256()))
    try:
        curve.public_key().verify(signature, b"other", ec.ECDSA(hashes.SHA256()))
        tell("forged", "accepted")
    except InvalidSignature:
        tell("forged", "refused")
    private = rsa.generate_private_key(65537, 2048)
    secret = private.public_key().encrypt(b"text", padding.PKCS1v15())
    tell("rsa", private.decrypt(secret, padding.PKCS1v15()))
    sealed = AESGCM(bytes(16)).encrypt(bytes(12), b"plain" * 1000, b"head")
    tell("gcm", sealed)
    tell("chacha", ChaCha20Poly1305(bytes(32)).encrypt(bytes(12), b"plain", None))
    try:
        AESGCM(bytes(16)).decrypt(bytes(12), sealed[:-1] + b"x", b"head")
    except InvalidTag as error:
        tell("tag", type(error).__name__)
    tell("pbkdf2", PBKDF2HMAC(hashes.SHA256(), 32, b"salt", 5000).derive(b"password"))
