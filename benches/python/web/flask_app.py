"""Flask with SQLAlchemy and psycopg 3: a request is a transaction of three statements on PostgreSQL."""

import os

import flask
import sqlalchemy
import worker
from sqlalchemy import ForeignKey, func, orm, select

AUTHORS = 20
BOOKS = 25
REQUESTS = [("GET", f"/authors/{author}", b"") for author in range(1, AUTHORS + 1)]

engine = sqlalchemy.create_engine(os.environ["WEB_DATABASE"])
Session = orm.sessionmaker(engine)


class Base(orm.DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str]
    books: orm.Mapped[list["Book"]] = orm.relationship(back_populates="author", order_by="Book.title")


class Book(Base):
    __tablename__ = "book"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    author_id: orm.Mapped[int] = orm.mapped_column(ForeignKey("author.id"), index=True)
    title: orm.Mapped[str]
    pages: orm.Mapped[int]
    author: orm.Mapped[Author] = orm.relationship(back_populates="books")


app = flask.Flask(__name__)


@app.get("/authors/<int:number>")
def author(number):
    with Session() as session:
        found = session.get(Author, number) or flask.abort(404)
        total = session.scalar(select(func.sum(Book.pages)).where(Book.author_id == number))
        books = [{"title": book.title, "pages": book.pages} for book in found.books]
        response = flask.jsonify(name=found.name, books=books, pages=total)
    response.headers["x-worker"] = worker.name()
    return response


def prepare():
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    with Session.begin() as session:
        for number in range(1, AUTHORS + 1):
            books = [Book(title=f"Volume {book:02} of {number}", pages=60 + 17 * book) for book in range(BOOKS)]
            session.add(Author(id=number, name=f"Author {number}", books=books))
