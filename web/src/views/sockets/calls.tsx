// The calls by which programs set up sockets, over time.

import type { PicturedCall, PicturedSocket } from "../../document/picture.ts";
import { Count, Ns, Text } from "../../parts/figure.tsx";
import { Ranges } from "../../parts/ranges.tsx";
import { columns, Twin } from "../../parts/table.tsx";
import { counted } from "../../quantity.ts";
import { visible } from "../../visible.ts";

/** Number of sockets that are drawn; the table has all. */
const DRAWN = 12;
/** A logarithmic axis has no zero: the first calls are at its beginning. */
const FIRST_NS = 1e3;

export function SocketCalls({ sockets }: { sockets: PicturedSocket[] }) {
    const row = (socket: PicturedSocket) => {
        const marks = socket.calls.map((call) => Math.max(call.at_ns, FIRST_NS));
        const name = visible(nameOf(socket));
        return {
            name,
            low: FIRST_NS,
            high: marks.at(-1) ?? FIRST_NS,
            marks,
            words: socket.calls.map(wordsOf),
            kind: "calls",
        };
    };
    const later = sockets.reduce((sum, { left_out = 0 }) => sum + left_out, 0);
    return (
        <>
            <h3>Calls on sockets</h3>
            <p>
                The calls that set up {counted(sockets.length, "socket")}, by the time after the
                first call on each. A name with an asterisk was called after data had been sent.
                {later > 0 && ` ${counted(later, "later call")} on them are not shown.`}
            </p>
            <Ranges
                label="Calls on sockets over time; the table below lists them."
                rows={sockets.slice(0, DRAWN).map(row)}
            />
            <Twin
                caption="Calls on sockets"
                columns={columns(
                    ["Socket", "Call", "Value", "Error"],
                    ["Time", "Bytes sent before"],
                )}
                rows={() => sockets.flatMap(rowsOf)}
            />
        </>
    );
}

function nameOf({ program, pid, local, remote }: PicturedSocket): string {
    return `${program}[${pid}] ${remote ?? `at ${local ?? "?"}`}`;
}

function wordsOf({ call, option, sent }: PicturedCall): string {
    return visible(option ?? call) + (sent > 0 ? "*" : "");
}

function rowsOf(socket: PicturedSocket) {
    return socket.calls.map((call) => [
        <Text key="socket" of={nameOf(socket)} />,
        <Text key="call" of={call.option ?? call.call} />,
        <Text key="value" of={call.value || "–"} />,
        <Text key="error" of={call.error} />,
        <Ns key="at" of={call.at_ns} />,
        <Count key="sent" of={call.sent} />,
    ]);
}
