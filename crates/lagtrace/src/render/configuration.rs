//! The effective configuration, as the programs resolve it.

use lagtrace_core::report::{Report, Setting};

use super::page::{Page, Tone};

/// Writes each explicit setting with its place. Built-in defaults are left out: they are in the
/// JSON report, and those that support a finding are part of its evidence.
pub(super) fn write(page: &mut Page, report: &Report) {
    let is_explicit = |setting: &&Setting| setting.set_at.is_some();
    let mut settings = report.configuration.iter().filter(is_explicit).peekable();
    if settings.peek().is_some() {
        page.heading("Configuration");
    }
    for setting in settings {
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
