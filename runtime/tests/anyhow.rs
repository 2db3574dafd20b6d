//! `anyhow::Error` in host functions, by the feature of that name.

mod pythons;

use anyhow::{Context, bail};
use hydrozoa::{Error, Object, Session};
use pythons::pools;

fn serve(number: &Object<'_>) -> anyhow::Result<i64> {
    let number: i64 = number.extract().context("the number")?;
    if number < 0 {
        bail!("{number} is too small");
    }
    Ok(number)
}

fn attempt(session: &Session, number: Object<'_>) -> Error {
    let f = session.function("serve", |session, arguments| {
        let number = serve(&arguments.get(0).unwrap())?;
        session.object_from(&number)
    });
    f.unwrap().call((number,)).unwrap_err()
}

#[test]
fn a_host_function_returns_errors_of_anyhow_by_the_question_mark() {
    for pool in pools(1) {
        let session = pool.acquire().unwrap();
        let error = attempt(&session, session.eval("-3").unwrap());
        assert!(matches!(error, Error::Host(_)), "{error:?}");
        assert_eq!(error.to_string(), "-3 is too small");
        let error = attempt(&session, session.eval("[]").unwrap());
        assert_eq!(error.to_string(), "the number");
        let text = error.exception().unwrap().value(&session).unwrap().str().unwrap();
        assert!(text.starts_with("the number: cannot convert list to int"), "{text}");
    }
}

#[test]
fn an_error_of_this_crate_comes_out_of_anyhow_as_what_it_was() {
    let own = || anyhow::Error::from(Error::raise("KeyError", "colour"));
    assert!(matches!(Error::from(own()), Error::Python { .. }));
    let error = Error::from(own().context("painting"));
    assert!(matches!(error, Error::Host(_)), "{error:?}");
    assert_eq!(error.to_string(), "painting");
}
