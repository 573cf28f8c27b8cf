//! The command line: help, errors and exit codes, compared with golden files.

#[test]
fn says_what_is_in_the_golden_files() {
    trycmd::TestCases::new()
        .env("NO_COLOR", "1")
        .env("LC_ALL", "C.UTF-8")
        .case("tests/cli/*.trycmd");
}
