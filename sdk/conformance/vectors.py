#!/usr/bin/env python3
"""Writes vectors/*.json for the lowest layers of aude-wire, from an implementation of its own.

Nothing here uses aude's code: Noise, fingerprints, names and canonical JSON are written out again from their specifications, so
that an error on one side shows. Run it only to add cases; what is committed decides. Needs the package `cryptography`, and node
for the numbers of canonical JSON.
"""

import base64
import hashlib
import hmac
import json
import pathlib
import subprocess
import unicodedata

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

HERE = pathlib.Path(__file__).parent / "vectors"
P = 2**255 - 19
PLAINTEXT = 65519


def write(name, value):
    (HERE / f"{name}.json").write_text(json.dumps(value, indent=1, ensure_ascii=True) + "\n")


def encode(u):
    return u.to_bytes(32, "little")


# Fingerprints -------------------------------------------------------------------------------------------------------------


def canonical_key(raw):
    return encode((int.from_bytes(raw, "little") & (2**255 - 1)) % P)


def fingerprint(raw):
    digest = hashlib.sha256(canonical_key(raw)).digest()
    return base64.b32encode(digest).decode().lower().rstrip("=")[:28]


def fingerprint_21(raw):
    return base64.urlsafe_b64encode(hashlib.sha256(canonical_key(raw)).digest()).decode().rstrip("=")


ORDER_8 = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)


def fingerprints():
    keys = [
        ("the base point", encode(9)),
        ("the base point with the top bit set", encode(9 | 2**255)),
        ("2 as p + 2", encode(P + 2)),
        ("2", encode(2)),
        ("18 as 2^255 - 1", encode(2**255 - 1)),
        ("18 as 2^256 - 1", encode(2**256 - 1)),
        ("p - 2", encode(P - 2)),
        ("Alice of RFC 7748", bytes.fromhex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")),
        ("Bob of RFC 7748", bytes.fromhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")),
    ]
    low = [0, 1, P - 1, P, P + 1, *ORDER_8]
    low_order = [{"bytes": encode(u | top).hex()} for u in low for top in (0, 2**255)]
    good = fingerprint(encode(9))
    write(
        "fingerprints",
        {
            "keys": [
                {
                    "name": name,
                    "bytes": raw.hex(),
                    "canonical": canonical_key(raw).hex(),
                    "fingerprint": fingerprint(raw),
                    "fingerprint_21": fingerprint_21(raw),
                }
                for name, raw in keys
            ],
            "low_order": low_order,
            "bad_texts": ["", good[:27], good + "a", good.upper(), good[:27] + "1", good[:27] + "=", " " + good, good[:26] + "\u00e4"],
        },
    )


# Noise_XX_25519_ChaChaPoly_SHA256 -----------------------------------------------------------------------------------------


def public(private):
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def dh(private, remote):
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(remote))


class Cipher:
    def __init__(self, key):
        self.key, self.nonce = key, 0

    def seal(self, plaintext, data=b""):
        nonce = bytes(4) + self.nonce.to_bytes(8, "little")
        self.nonce += 1
        return ChaCha20Poly1305(self.key).encrypt(nonce, plaintext, data)


def hkdf(chaining, material):
    secret = hmac.digest(chaining, material, "sha256")
    one = hmac.digest(secret, b"\x01", "sha256")
    return one, hmac.digest(secret, one + b"\x02", "sha256")


class Symmetric:
    def __init__(self, prologue):
        self.hash = self.chaining = b"Noise_XX_25519_ChaChaPoly_SHA256"
        self.cipher = None
        self.mix(prologue)

    def mix(self, data):
        self.hash = hashlib.sha256(self.hash + data).digest()

    def mix_key(self, material):
        self.chaining, key = hkdf(self.chaining, material)
        self.cipher = Cipher(key)

    def seal(self, plaintext):
        message = self.cipher.seal(plaintext, self.hash) if self.cipher else plaintext
        self.mix(message)
        return message


def handshake(name, prologue, initiator, initiator_ephemeral, responder, responder_ephemeral, plaintexts):
    state = Symmetric(prologue)
    first = public(initiator_ephemeral)
    state.mix(first)
    first += state.seal(b"")
    second = public(responder_ephemeral)
    state.mix(second)
    state.mix_key(dh(responder_ephemeral, public(initiator_ephemeral)))
    second += state.seal(public(responder))
    state.mix_key(dh(responder, public(initiator_ephemeral)))
    second += state.seal(b"")
    third = state.seal(public(initiator))
    state.mix_key(dh(initiator, public(responder_ephemeral)))
    third += state.seal(b"")
    ciphers = dict(zip(("client", "listener"), map(Cipher, hkdf(state.chaining, b""))))
    return {
        "name": name,
        "prologue": prologue.decode(),
        "client": {"static": initiator.hex(), "ephemeral": initiator_ephemeral.hex(), "fingerprint": fingerprint(public(initiator))},
        "listener": {"static": responder.hex(), "ephemeral": responder_ephemeral.hex(), "fingerprint": fingerprint(public(responder))},
        "handshake": [first.hex(), second.hex(), third.hex()],
        "hash": state.hash.hex(),
        "transport": [
            {"from": side, "plaintext": plain.hex(), "message": ciphers[side].seal(plain).hex()} for side, plain in plaintexts
        ],
    }


def handshakes():
    keys = [hashlib.sha256(f"aude-wire vector key {number}".encode()).digest() for number in range(4)]
    hello = b'{"type":"hello","id":"3b1f8c52-90c4-4e0e-9a44-0d6c2f7b1a10","timestamp":"2026-01-01T12:00:00.000Z","body":{"home":{}}}\n'
    plaintexts = [
        ("client", hello[:40]),
        ("client", hello[40:]),
        ("listener", b""),
        ("listener", b"{}\n{}\n"),
        ("client", b"{}\n"),
        ("listener", b"{\"a\":1}\n"),
    ]
    write(
        "handshake",
        [
            handshake("current", b"aude-wire", *keys, plaintexts),
            handshake("version 21", b"", *keys, plaintexts),
        ],
    )


# Lines --------------------------------------------------------------------------------------------------------------------


def lines():
    def repeat(times, text="a"):
        return {"repeat": text, "times": times}

    mib8, hello = 8 * 1024 * 1024, 16384
    write(
        "lines",
        {
            "splits": [
                {"line_bytes": size, "plaintexts": [PLAINTEXT] * ((size + 1) // PLAINTEXT) + ([rest] if (rest := (size + 1) % PLAINTEXT) else [])}
                for size in (2, 65517, 65518, 65519, 65520, 131037, 131038, mib8)
            ],
            "streams": [
                {"name": "two lines in one plaintext", "limit": "line", "plaintexts": [[{"text": "{}\n{}\n"}]], "lines": [2, 2]},
                {"name": "one line in three plaintexts", "limit": "line", "plaintexts": [[{"text": "{"}], [], [{"text": "}\n"}]], "lines": [2]},
                {"name": "an empty line is a line", "limit": "line", "plaintexts": [[{"text": "\n\n"}]], "lines": [0, 0]},
                {"name": "a line of exactly 8 MiB", "limit": "line", "plaintexts": [[repeat(mib8)], [{"text": "\n"}]], "lines": [mib8]},
                {"name": "one byte beyond 8 MiB, without its end", "limit": "line", "plaintexts": [[repeat(mib8)], [repeat(1)]], "lines": [], "error": "line_too_long"},
                {"name": "one byte beyond 8 MiB, with its end", "limit": "line", "plaintexts": [[repeat(mib8 + 1), {"text": "\n"}]], "lines": [], "error": "line_too_long"},
                {"name": "lines before a long one are read", "limit": "line", "plaintexts": [[{"text": "{}\n"}, repeat(mib8 + 1)]], "lines": [2], "error": "line_too_long"},
                {"name": "a hello of 16,384 bytes with its end", "limit": "hello", "plaintexts": [[repeat(hello - 1), {"text": "\n"}]], "lines": [hello - 1]},
                {"name": "a hello one byte longer", "limit": "hello", "plaintexts": [[repeat(hello), {"text": "\n"}]], "lines": [], "error": "no_hello"},
                {"name": "bad lines count", "limit": "hello", "plaintexts": [[repeat(1023), {"text": "\n"}]] * 16 + [[repeat(1)]], "lines": [1023] * 16, "error": "no_hello"},
                {"name": "16,384 bytes without an end may still be ended by nothing", "limit": "hello", "plaintexts": [[repeat(hello)], [repeat(1, "\n")]], "lines": [], "error": "no_hello"},
            ],
        },
    )


# Strict JSON --------------------------------------------------------------------------------------------------------------


def strict():
    def nested(levels, opening='{"a":', closing="}"):
        return opening * (levels - 1) + "{}" + closing * (levels - 1)

    valid = [
        "{}",
        '{"a":1}',
        '{ "a" : [ 1 , 2.5 , -3e2 , null , true , false , "x" ] }',
        '{\t"a"\r:{}}',
        '{"a":"\\u0000"}',
        '{"a":"\\ud83d\\ude00"}',
        '{"a":{"b":1},"b":{"b":1}}',
        '{"":1}',
        '{"A":1,"a":2}',
        '{"\u00e9":1,"e\u0301":2}',
        '{"a":18446744073709551615,"b":-9223372036854775808,"c":123456789012345678901234567890}',
        '{"a":"' + "\u2028\ufffe\U0010ffff" + '"}',
        '{"a":"\\/\\b\\f\\n\\r\\t\\"\\\\"}',
        nested(64),
        '{"a":' + "[" * 63 + "]" * 63 + "}",
    ]
    invalid = [
        ("", "shape"),
        (" {}", "shape"),
        ("{} ", "shape"),
        ("\r{}", "shape"),
        ("{}\r", "shape"),
        ("[]", "shape"),
        ("null", "shape"),
        ('"{}"', "shape"),
        ("\ufeff{}", "shape"),
        ("{", "shape"),
        ("}", "shape"),
        ("{}{}", "trailing"),
        ('{"a":1},{"b":2}', "trailing"),
        ('{} x {"a":1}', "trailing"),
        ('{"a":1,"a":1}', "duplicate"),
        ('{"a":1,"\\u0061":2}', "duplicate"),
        ('{"a":{"b":[{"c":1,"c":2}]}}', "duplicate"),
        ('{"\\ud83d\\ude00":1,"\U0001f600":2}', "duplicate"),
        ('{"a":1,}', "syntax"),
        ('{"a"}', "syntax"),
        ("{a:1}", "syntax"),
        ("{'a':1}", "syntax"),
        ('{"a":01}', "syntax"),
        ('{"a":+1}', "syntax"),
        ('{"a":1.}', "syntax"),
        ('{"a":.5}', "syntax"),
        ('{"a":NaN}', "syntax"),
        ('{"a":Infinity}', "syntax"),
        ('{"a":1e999}', "syntax"),
        ('{"a":nul}', "syntax"),
        ('{"a":"\t"}', "syntax"),
        ('{"a":"\x00"}', "syntax"),
        ('{"a":"\\x41"}', "syntax"),
        ('{"a":"\\ud800"}', "syntax"),
        ('{"a":"\\udc00"}', "syntax"),
        ('{"a":"\\ud800\\ud800"}', "syntax"),
        ('{"\\ud800":1}', "syntax"),
        ('{"a":1 "b":2}', "syntax"),
        ('{"a":[1}', "syntax"),
        ('{"a":1/*x*/}', "syntax"),
        ("{\u00a0}", "syntax"),
        (nested(65), "depth"),
        ('{"a":' + "[" * 64 + "]" * 64 + "}", "depth"),
        ('{"a":' * 100000 + "}", "depth"),
    ]
    raw = [
        (b'{"a":"\xff"}', "encoding"),
        (b'{"a":"\xed\xa0\x80"}', "encoding"),
        (b'{"a":"\xc0\xaf"}', "encoding"),
        (b'{"a":"\xf4\x90\x80\x80"}', "encoding"),
        (b"{\xff}", "encoding"),
        (b"\xff\xfe{\x00}\x00", "encoding"),
    ]

    def packed(text):
        # The deepest one would be half a megabyte of this file.
        return {"repeat": '{"a":', "times": 100000, "end": "}"} if len(text) > 100000 else {"line": text}

    write(
        "strict-json",
        {
            "valid": valid,
            "invalid": [{**packed(text), "error": error} for text, error in invalid]
            + [{"hex": data.hex(), "error": error} for data, error in raw],
            "integers": {
                "valid": ["0", "1", "9007199254740991"],
                "invalid": ["9007199254740992", "-1", "-0", "1.0", "1e3", "0.5", "1E0", "18446744073709551616", '"1"', "true", "null", "[]"],
            },
        },
    )


# Canonical JSON -----------------------------------------------------------------------------------------------------------

NODE = """
const canonical = (value) => Array.isArray(value) ? '[' + value.map(canonical).join(',') + ']'
  : value !== null && typeof value === 'object'
    ? '{' + Object.keys(value).sort().map((name) => JSON.stringify(name) + ':' + canonical(value[name])).join(',') + '}'
    : JSON.stringify(value);
const texts = JSON.parse(require('fs').readFileSync(0, 'utf8'));
console.log(JSON.stringify(texts.map((text) => canonical(JSON.parse(text)))));
"""


def canonical():
    texts = [
        '{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}',
        '{"\\u20ac":"Euro Sign","\\r":"Carriage Return","\\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\\ud83d\\ude00":"Emoji: Grinning Face","\\u0080":"Control","\\u00f6":"Latin Small Letter O With Diaeresis"}',
        "[0,-0,-0.0,1,-1,1.0,1e0,10,100]",
        "[5e-324,-5e-324,1.7976931348623157e308,-1.7976931348623157e308,9007199254740992,-9007199254740992,295147905179352830000]",
        "[9.999999999999997e22,1e23,1.0000000000000001e23,999999999999999700000,999999999999999900000,1e21,1e20,123456789012345678901234567890]",
        "[9.999999999999997e-7,0.000001,0.0000001,1.5e-7,123e-20,0.00001234]",
        "[333333333.3333332,333333333.33333325,333333333.3333333,333333333.3333334,333333333.33333343,-0.0000033333333333333333,1424953923781206.2]",
        "[18446744073709551615,9223372036854775807,-9223372036854775808,9007199254740993]",
        '{"b":{"b":2,"a":[]},"a":{},"":"\\u0000\\u001f\\u007f\\u2028<>&"}',
        '"\\ud83d\\ude00"',
        "null",
        '{"call":"toolu_1","detail":"rm -rf build\\n","options":["allow","allow_session","deny"],"title":"Run rm"}',
    ]
    output = subprocess.run(["node", "-e", NODE], input=json.dumps(texts), capture_output=True, text=True, check=True).stdout
    write(
        "canonical-json",
        [
            {"text": text, "canonical": form, "digest": hashlib.sha256(form.encode()).hexdigest()}
            for text, form in zip(texts, json.loads(output))
        ],
    )


# Names --------------------------------------------------------------------------------------------------------------------

BIDI = {0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}


def clean(text):
    kept = "".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cs") and ord(c) not in BIDI)
    return unicodedata.normalize("NFC", kept).strip()[:48].strip()


def names():
    texts = [
        "my phone",
        "  my\tphone \n",
        "",
        " \u00a0\u3000\u2028",
        "\u0000\u001b[31mred\u001b[0m\u0085",
        "\u202egnp.exe",
        "a\u2066b\u2069c\u061cd\u200ee\u200f",
        "e\u0301te\u0301",
        "\u1100\u1161\u11a8",
        "e\u200e\u0301",
        "a" * 48,
        "a" * 49,
        "a" * 47 + " b",
        "\U0001f600" * 60,
        "e\u0301" * 60,
        "\u202e\u202d",
        "\u00e9",
        "zero\u200bwidth",
    ]
    write("names", [{"text": text, "device": clean(text) or "device", "session": clean(text) or None} for text in texts])


# Pairing ------------------------------------------------------------------------------------------------------------------


def pairing():
    name = fingerprint(encode(9))
    code = "abcdefgh234567mnopqr"

    def endpoint(host, written, port, origin, link):
        return {"text": f"{name}@{written}", "host": host, "port": port, "origin": origin, "link": link, "written": f"{name}@{host}" + ("" if port == 443 else f":{port}")}

    write(
        "pairing",
        {
            "codes": {
                "good": ["a" * 16, code, "2" * 26],
                "bad": ["", "a" * 15, "a" * 27, "A" * 20, "a" * 19 + "1", "a" * 19 + "8", "a" * 19 + " ", "a" * 19 + "-", "a" * 18 + "\u00e4"],
                "typed": [
                    {"text": "ABCD-EFGH-2345-67MN-OPQR", "code": code},
                    {"text": "  abcd efgh\u00a02345\u201367mn\u2014opqr\n", "code": code},
                    {"text": "abcd.efgh.2345.67mn.opqr", "code": None},
                    {"text": "abcd efgh", "code": None},
                    {"text": "0bcd-efgh-2345-67mn-opqr", "code": None},
                ],
            },
            "endpoints": {
                "good": [
                    endpoint("127.0.0.1", "127.0.0.1:4310", 4310, "http://127.0.0.1:4310", "ws://127.0.0.1:4310/wire"),
                    endpoint("localhost", "LOCALHOST:80", 80, "http://localhost", "ws://localhost/wire"),
                    endpoint("localhost", "localhost", 443, "http://localhost:443", "ws://localhost:443/wire"),
                    endpoint("[::1]", "[0:0::1]:4310", 4310, "http://[::1]:4310", "ws://[::1]:4310/wire"),
                    endpoint("my-box.example.net", "My-Box.example.net", 443, "https://my-box.example.net", "wss://my-box.example.net/wire"),
                    endpoint("box.example.net", "box.example.net:443", 443, "https://box.example.net", "wss://box.example.net/wire"),
                    endpoint("box.example.net", "box.example.net:80", 80, "https://box.example.net:80", "wss://box.example.net:80/wire"),
                    endpoint("192.168.0.7", "192.168.0.7:8443", 8443, "https://192.168.0.7:8443", "wss://192.168.0.7:8443/wire"),
                    endpoint("[2001:db8::1]", "[2001:DB8::1]", 443, "https://[2001:db8::1]", "wss://[2001:db8::1]/wire"),
                ],
                "bad": [
                    name,
                    f"{name}@",
                    f"{name}@:443",
                    f"{name}@host:",
                    f"{name}@host:0",
                    f"{name}@host:0443",
                    f"{name}@host:+1",
                    f"{name}@host:65536",
                    f"{name}@host:1:2",
                    f"{name}@ho st",
                    f"{name}@host/path",
                    f"{name}@user@host",
                    f"{name}@-host",
                    f"{name}@a..b",
                    f"{name}@::1",
                    f"{name}@[::1",
                    f"{name}@[::1]x",
                    f"{name}@h\u00f6st",
                    f"{name[:-1]}@host",
                    f"{name.upper()}@host",
                    "host:443",
                ],
            },
            "urls": {
                "good": [
                    {"text": f"http://127.0.0.1:4310/#pair={name}.{code}", "endpoint": f"{name}@127.0.0.1:4310", "code": code},
                    {"text": f"https://box.example.net/#pair={name}.{code}", "endpoint": f"{name}@box.example.net", "code": code},
                    {"text": f"http://localhost/#pair={name}.{code}", "endpoint": f"{name}@localhost:80", "code": code},
                ],
                "bad": [
                    f"http://box.example.net/#pair={name}.{code}",
                    f"https://127.0.0.1:4310/#pair={name}.{code}",
                    f"ftp://127.0.0.1/#pair={name}.{code}",
                    f"https://box.example.net/?pair={name}.{code}",
                    f"https://box.example.net/x/#pair={name}.{code}",
                    f"https://user@box.example.net/#pair={name}.{code}",
                    f"https://box.example.net/#pair={name}",
                    f"https://box.example.net/#pair={name}.abc",
                    f"https://box.example.net/#pair={code}.{name}",
                ],
            },
            "secrets": [f"{name}.{code}", f" #pair={name}.{code}\n", f"{name.upper()}.{code.upper()}", f"{name}.abcd-efgh 2345-67mn-opqr"],
            "secret": {"fingerprint": name, "code": code},
        },
    )


if __name__ == "__main__":
    for part in (fingerprints, handshakes, lines, strict, canonical, names, pairing):
        part()
