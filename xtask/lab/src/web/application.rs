//! The applications. `benches/python/web` has their code.

/// An application that all servers of its interface serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Application {
    /// A few bytes of text, WSGI
    EmptyWsgi,
    /// The same by ASGI
    EmptyAsgi,
    /// Django with SQLite and templates, WSGI
    Django,
    /// FastAPI with pydantic, ASGI
    Fastapi,
    /// Flask with SQLAlchemy and psycopg on PostgreSQL, WSGI
    Flask,
    /// A groupby of pandas, WSGI
    Pandas,
    /// FastAPI with a small model of torch, ASGI
    Torch,
}

/// The interface between server and application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    Wsgi,
    Asgi,
}

impl Interface {
    /// As options of servers name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wsgi => "wsgi",
            Self::Asgi => "asgi",
        }
    }
}

impl Application {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 7] = [
        Self::EmptyWsgi,
        Self::EmptyAsgi,
        Self::Django,
        Self::Fastapi,
        Self::Flask,
        Self::Pandas,
        Self::Torch,
    ];

    /// The name in options and measurements.
    pub fn name(self) -> &'static str {
        match self {
            Self::EmptyWsgi => "empty-wsgi",
            Self::EmptyAsgi => "empty-asgi",
            Self::Django => "django",
            Self::Fastapi => "fastapi",
            Self::Flask => "flask",
            Self::Pandas => "pandas",
            Self::Torch => "torch",
        }
    }

    /// The name in tables.
    pub fn title(name: &str) -> &str {
        match name {
            "empty-wsgi" => "empty, WSGI",
            "empty-asgi" => "empty, ASGI",
            "django" => "Django, SQLite, templates",
            "fastapi" => "FastAPI, pydantic",
            "flask" => "Flask, SQLAlchemy, psycopg",
            "pandas" => "pandas, WSGI",
            "torch" => "FastAPI, torch",
            other => other,
        }
    }

    /// The module; its attribute `app` is the application.
    pub fn module(self) -> &'static str {
        match self {
            Self::EmptyWsgi => "empty_wsgi",
            Self::EmptyAsgi => "empty_asgi",
            Self::Django => "django_app",
            Self::Fastapi => "fastapi_app",
            Self::Flask => "flask_app",
            Self::Pandas => "pandas_app",
            Self::Torch => "torch_app",
        }
    }

    pub fn interface(self) -> Interface {
        match self {
            Self::EmptyWsgi | Self::Django | Self::Flask | Self::Pandas => Interface::Wsgi,
            Self::EmptyAsgi | Self::Fastapi | Self::Torch => Interface::Asgi,
        }
    }

    /// Whether it imports torch, which is in an environment of its own.
    pub fn has_torch(self) -> bool {
        self == Self::Torch
    }

    /// Whether it asks PostgreSQL.
    pub fn has_database(self) -> bool {
        self == Self::Flask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn each_application_has_one_name_a_title_and_a_module() {
        assert_eq!(Application::value_variants(), Application::ALL);
        for application in Application::ALL {
            let option = application.to_possible_value().expect("no application is hidden");
            assert_eq!(option.get_name(), application.name());
            assert_ne!(Application::title(application.name()), application.name());
            let module = format!("{}.py", application.module());
            assert!(super::super::installed::scripts().join(&module).exists(), "{module}");
        }
    }
}
