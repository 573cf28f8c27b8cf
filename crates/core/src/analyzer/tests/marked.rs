//! Tests of congestion marks (ECN), which are reported if the ends have agreed on ECN.

use super::*;

/// Returns the remark on congestion marks, and the report, for responses that are marked on the
/// path. `agrees`: the ends agreed on ECN. `echoes`: the clients echo the marks.
fn told(connections: u16, agrees: bool, echoes: bool) -> (Option<String>, Report) {
    let options = Options {
        connections: Wanted {
            limit: 1,
            ..Wanted::default()
        },
        ..Options::default()
    };
    let mut analyzer = Analyzer::new(options);
    for (mut segment, payload) in traffic(connections) {
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        if is_syn && agrees {
            segment.flags = segment.flags.with(TcpFlags::ECE);
            if !segment.flags.contains(ACK) {
                segment.flags = segment.flags.with(TcpFlags::CWR);
            }
        }
        segment.ip.congestion_marked = payload == RESPONSE;
        let is_echo = !is_syn && payload.is_empty() && segment.ack > 1;
        if is_echo && echoes && segment.direction == traffic(1)[0].0.direction {
            segment.flags = segment.flags.with(TcpFlags::ECE);
        }
        analyzer.segment(&segment, payload);
    }
    let report = analyzer.finish();
    let note = report
        .notes
        .iter()
        .find(|note| note.id == "congestion-marks");
    (note.map(|note| note.text.clone()), report)
}

#[test]
fn marks_and_their_echoes_are_counted_by_connection() {
    for connections in [1, 7, 40] {
        let (text, report) = told(connections, true, true);
        let text = text.expect("a note");
        let begins = format!("{connections} of {connections} connections had packets");
        assert!(text.starts_with(&begins), "{text}");
        let [marked, echoed] = [connections, 3 * connections];
        let counts = [format!("(ECN CE: {marked})"), format!("(ECE: {echoed})")];
        assert!(counts.iter().all(|count| text.contains(count)), "{text}");
        let listed = report.connections.expect("asked for").list;
        let [client, server] = [&listed[0].client_side, &listed[0].server_side];
        let marks = |side: &crate::report::ConnectionSide| {
            side.congestion.map(|marks| (marks.marked, marks.echoed))
        };
        assert_eq!(marks(server), Some((1, 0)));
        assert_eq!(marks(client), Some((0, 3)));
    }
}

#[test]
fn where_nobody_agreed_and_nobody_echoes_the_same_bits_are_no_marks() {
    let (text, _) = told(7, false, false);
    assert_eq!(text, None);
    assert!(
        told(7, false, true).0.is_some(),
        "an echo says that they are"
    );
}
