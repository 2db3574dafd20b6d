"""A page of Django: rows of SQLite by its models, in a template that extends another, with the middleware of a new project."""

import os
import pathlib

import django
import worker
from django.conf import settings

HERE = pathlib.Path(__file__).parent
AUTHORS = 20
BOOKS = 25
REQUESTS = [("GET", f"/authors/{author}", b"") for author in range(1, AUTHORS + 1)]

settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.path.join(os.environ["WEB_FOLDER"], "django.sqlite3"),
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "django.contrib.messages",
        "django.contrib.staticfiles",
    ],
    MIDDLEWARE=[
        "django.middleware.security.SecurityMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
    ],
    ROOT_URLCONF=__name__,
    SECRET_KEY="for measurements alone",
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "DIRS": [HERE / "templates"]}],
    USE_TZ=True,
)
django.setup()

from django.core.wsgi import get_wsgi_application
from django.db import connection, models
from django.shortcuts import get_object_or_404, render
from django.urls import path


class Author(models.Model):
    name = models.CharField(max_length=100)

    class Meta:
        app_label = "shop"


class Book(models.Model):
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    title = models.CharField(max_length=200)
    pages = models.IntegerField()

    class Meta:
        app_label = "shop"


def author(request, number):
    found = get_object_or_404(Author, pk=number)
    books = found.books.filter(pages__gt=100).order_by("title")
    total = books.aggregate(pages=models.Sum("pages"))["pages"]
    response = render(request, "author.html", {"author": found, "books": books, "total": total})
    response["x-worker"] = worker.name()
    return response


urlpatterns = [path("authors/<int:number>", author)]
app = get_wsgi_application()


def prepare():
    pathlib.Path(settings.DATABASES["default"]["NAME"]).unlink(missing_ok=True)
    with connection.schema_editor() as editor:
        editor.create_model(Author)
        editor.create_model(Book)
    for number in range(1, AUTHORS + 1):
        one = Author.objects.create(pk=number, name=f"Author <{number}> & Sons")
        Book.objects.bulk_create(
            Book(author=one, title=f"Volume {book:02} of {number}", pages=60 + 17 * book) for book in range(BOOKS)
        )
    connection.close()
