"""parsing, quoting, joining of addresses"""

from yarl import URL
from yarl import _quoting_c


def work(tell):
    tell("compiled", _quoting_c.__file__.endswith(".so"))
    url = URL("http://user:päss@exämple.org:8080/a b/ц?x=1&y=ü#frag")
    tell("parts", [str(url), url.host, url.raw_host, url.path, url.raw_path, url.query_string, url.fragment])
    tell("join", str(URL("http://a/b/c/d").join(URL("../x?y"))))
    tell("query", [str(url % {"q": str(i) * 3, "z": "a+b &"}) for i in range(100)])
    try:
        URL("http://[::1")
    except ValueError as error:
        tell("error", str(error))
