//! Programs that the compiler must refuse.

#[test]
fn handles_cannot_outlive_their_session() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
