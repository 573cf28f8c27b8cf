//! Bars of figures on one scale that begins at zero.

use super::shares::percent;
use super::writer::Html;

/// A bar with its words.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) value: f64,
    /// The value as text.
    pub(super) shown: String,
    pub(super) class: &'static str,
    /// Words behind the value.
    pub(super) remark: String,
}

/// Writes bars below each other; nothing if there are none. The longest is as wide as there is room.
pub(super) fn write(html: &mut Html, title: &str, bars: &[Bar]) {
    let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    if bars.is_empty() {
        return;
    }
    html.element("table", &[("class", "measures")], |html| {
        html.leaf("caption", &[], title);
        html.element("tbody", &[], |html| {
            for bar in bars {
                row(html, bar, most);
            }
        });
    });
}

fn row(html: &mut Html, bar: &Bar, most: f64) {
    html.element("tr", &[("class", bar.class)], |html| {
        html.leaf("th", &[("scope", "row")], &bar.name);
        html.classed("td", "number", &bar.shown);
        html.element("td", &[("class", "wide")], |html| {
            let width = percent(bar.value / most.max(f64::MIN_POSITIVE));
            let picture = [("class", "measure"), ("aria-hidden", "true")];
            html.element("svg", &picture, |html| {
                let place = [("width", &*width), ("height", "100%")];
                html.element("rect", &place, |_| {});
            });
        });
        html.classed("td", "words", &bar.remark);
    });
}
