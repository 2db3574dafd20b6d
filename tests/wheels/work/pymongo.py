"""BSON encoded and decoded in C, its types, and the error of a server that is not there"""

import datetime
import uuid

import bson
import pymongo
from bson import Binary, Decimal128, Int64, ObjectId, Regex, SON, Timestamp, codec_options, json_util
from pymongo.errors import ServerSelectionTimeoutError


def work(tell):
    tell("compiled", [bson.has_c(), pymongo.has_c()])
    document = SON(
        [
            ("id", ObjectId("0123456789ab0123456789ab")),
            ("rows", [{"n": i, "x": i / 3, "s": "ü" * i} for i in range(100)]),
            ("when", datetime.datetime(2024, 2, 29, 1, 2, 3)),
            ("many", [Int64(1 << 60), Decimal128("1.10"), Regex("a", "i"), Timestamp(5, 6), None, True, b"\0"]),
            ("uuid", Binary.from_uuid(uuid.UUID(int=7))),
        ]
    )
    data = bson.encode(document)
    tell("bytes", data)
    tell("again", bson.encode(bson.decode(data, codec_options.CodecOptions(document_class=SON))) == data)
    tell("json", json_util.dumps(bson.decode(data)))
    try:
        bson.decode(data[:-5])
    except bson.errors.InvalidBSON as error:
        tell("error", str(error))
    with pymongo.MongoClient("127.0.0.1", 1, serverSelectionTimeoutMS=200) as client:
        try:
            client.admin.command("ping")
        except ServerSelectionTimeoutError as error:
            tell("server", "refused" in str(error))
