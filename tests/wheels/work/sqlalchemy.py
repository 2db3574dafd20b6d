"""an SQLite schema, the ORM, joins, a failed constraint; the compiled helpers"""

from sqlalchemy import ForeignKey, create_engine, event, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship
from sqlalchemy.util._has_cython import HAS_CYEXTENSION


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    books: Mapped[list["Book"]] = relationship(back_populates="author")


class Book(Base):
    __tablename__ = "book"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    author_id: Mapped[int] = mapped_column(ForeignKey("author.id"))
    author: Mapped[Author] = relationship(back_populates="books")


def work(tell):
    tell("compiled", HAS_CYEXTENSION)
    engine = create_engine("sqlite://")
    statements = []
    event.listen(engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        for i in range(40):
            session.add(Author(name=f"a{i}", books=[Book(title=f"t{i}.{j}") for j in range(i % 5)]))
        session.commit()
        query = select(Author.name, func.count(Book.id)).join(Book).group_by(Author.name).order_by(Author.name)
        tell("counts", [tuple(row) for row in session.execute(query)])
        author = session.scalars(select(Author).where(Author.name == "a9")).one()
        tell("books", sorted(book.title for book in author.books))
        session.add(Author(name="a1"))
        try:
            session.commit()
        except IntegrityError as error:
            tell("error", str(error.orig))
    tell("statements", statements)
    engine.dispose()
