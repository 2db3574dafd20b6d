//! Programs that the compiler must refuse.

#[test]
fn code_without_unsafe_cannot_run_a_library_or_stand_in_for_a_symbol() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
