"""An application of Django in one file."""

import datetime
import os
import time

import django
from django.conf import settings

settings.configure(
    ALLOWED_HOSTS=["localhost"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="of the tests",
    TIME_ZONE="Asia/Kolkata",
    USE_TZ=False,
    MIDDLEWARE=["django.middleware.common.CommonMiddleware"],
)
django.setup()
# As Django does with settings that come from a module (django.conf.Settings).
os.environ["TZ"] = settings.TIME_ZONE
time.tzset()

from django.core.asgi import get_asgi_application  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import FileResponse, HttpResponse, StreamingHttpResponse  # noqa: E402
from django.urls import path  # noqa: E402


def hello(request):
    return HttpResponse(f"hello {request.GET['q']}")


def upload(request):
    file = request.FILES["file"]
    return HttpResponse(f"{file.name} {len(file.read())}")


def stream(request):
    return StreamingHttpResponse(f"{number}," for number in range(3))


def file(request):
    return FileResponse(open(__file__, "rb"))


def epoch(request):
    return HttpResponse(datetime.datetime.fromtimestamp(0))


def raising(request):
    raise LookupError("raised on purpose")


urlpatterns = [
    path("hello/", hello),
    path("upload/", upload),
    path("stream/", stream),
    path("file/", file),
    path("epoch/", epoch),
    path("raise/", raising),
]
application = get_wsgi_application()
asynchronous = get_asgi_application()
