//! The effective configuration, as the programs resolve it.

use lagtrace_core::report::{Report, Setting};

use super::page::{Page, Tone};

/// Writes each explicit setting, and `tcp_nodelay`, on which findings rest, with its
/// place; the built-in defaults are in the JSON report.
pub(super) fn write(page: &mut Page, report: &Report) {
    if report.configuration.is_empty() {
        return;
    }
    page.heading("Configuration");
    let notable =
        |setting: &&Setting| setting.set_at.is_some() || setting.directive == "tcp_nodelay";
    for setting in report.configuration.iter().filter(notable) {
        let value = format!("{} {}", setting.directive, setting.value);
        page.item(
            2,
            "•",
            Tone::Dim,
            &[(Tone::Strong, &value), (Tone::Dim, &place(setting))],
        );
        if setting.is_newer_than_process == Some(true) {
            let text = "The file is newer than the running workers, which may not have read it.";
            page.paragraph(4, Tone::Caution, text);
        }
        if let Some(doubt) = &setting.doubt {
            page.paragraph(4, Tone::Caution, &format!("Not certain: {doubt}"));
        }
    }
}

fn place(setting: &Setting) -> String {
    let twin = if setting.target == "twin" {
        ", twin"
    } else {
        ""
    };
    let place = setting.set_at.as_deref().unwrap_or("built-in default");
    let scope = if setting.scope.is_empty() {
        String::new()
    } else {
        format!(", {}", setting.scope)
    };
    format!("{place} ({}{twin}{scope})", setting.program)
}
