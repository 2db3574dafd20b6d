"""types, quoting, composed SQL, and the error of a server that is not there"""

import datetime
import decimal

import psycopg2
from psycopg2 import extensions, sql
from psycopg2.extras import Json, NumericRange


def work(tell):
    tell("library", psycopg2.__libpq_version__)
    values = ["it's \\ ü", 3, 2.5, None, True, b"\0\xff", decimal.Decimal("1.10"), datetime.date(2024, 2, 29), [1, [2]]]
    tell("quoted", [extensions.adapt(value).getquoted() for value in values])
    tell("json", extensions.adapt(Json({"a": [1]})).getquoted())
    tell("range", repr(NumericRange(1, 5, "[)")))
    tell("parsed", extensions.parse_dsn("host=localhost dbname='a b' user=u"))
    tell("made", extensions.make_dsn("dbname=x", password="p q"))
    tell("array", repr(psycopg2.extensions.UNICODE.name))
    tell("composed", repr(sql.SQL("select {} from {}").format(sql.Identifier('a"b'), sql.Identifier("s", "t"))))
    try:
        psycopg2.connect("host=127.0.0.1 port=1 connect_timeout=5")
    except psycopg2.OperationalError as error:
        tell("error", str(error))
