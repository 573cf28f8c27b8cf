// The route hop by hop.

import type { Hop, Report, Route } from "../document/report.ts";
import { Count, MaybeNs, Ns, spread, Text } from "../parts/figure.tsx";
import { Ranges, rangeOf } from "../parts/ranges.tsx";
import { columns, Twin } from "../parts/table.tsx";
import { View } from "../parts/view.tsx";
import { counted } from "../quantity.ts";
import { visible } from "../visible.ts";

const STATES: Record<NonNullable<Hop["state"]>, string> = {
    answers: "answers",
    limited: "limits its answers",
    lossy: "loses probes",
    undecided: "loses probes or limits its answers",
    silent: "silent",
};

export function hasRoute(report: Report): boolean {
    return (report.hops ?? []).length > 0;
}

export function RouteView({ report }: { report: Report }) {
    const hops = report.hops ?? [];
    const heard = hops.filter((hop) => hop.rtt_ns.max > 0);
    return (
        <View id="route" title="Route" says={says(report.route)}>
            {heard.length > 0 && (
                <Ranges
                    label="Round trips by hop; the table below lists them."
                    rows={heard.map((hop) => ({
                        name: `${hop.ttl}  ${visible(hop.name ?? hop.address ?? "?")}`,
                        ...rangeOf(hop.rtt_ns),
                        kind: hop.state === "lossy" ? "lossy" : undefined,
                    }))}
                />
            )}
            <Twin caption="Hops" columns={COLUMNS} rows={hops.map(row)} />
        </View>
    );
}

function says(route: Route | null | undefined): string {
    const hop =
        "The round trips to each hop that answered, from the minimum to the maximum; the marks are the median and the 99th percentile. A hop’s delay counts only if the later hops have it too.";
    if (!route) {
        return hop;
    }
    const distance = route.distance === null ? "" : `, ${counted(route.distance, "hop")} away`;
    return `${visible(route.target)} by ${visible(route.method)}: ${visible(route.outcome)}${distance}. ${hop}`;
}

const NUMBERS = [
    "Sent",
    "Answered",
    "Minimum",
    "Median",
    "p99",
    "Maximum",
    "Kept by later hops",
    "Own delay",
];
const COLUMNS = columns(["Hop", "Address", "Name", "System", "State"], NUMBERS);

function row(hop: Hop) {
    const system = hop.asn == null ? "–" : `AS${hop.asn} ${hop.as_name ?? ""}`;
    return [
        <Count key="ttl" of={hop.ttl} />,
        <Text key="address" of={hop.address} />,
        <Text key="name" of={hop.name} />,
        <Text key="system" of={system} />,
        STATES[hop.state ?? "answers"] ?? hop.state,
        <Count key="sent" of={hop.sent ?? 0} />,
        <Count key="received" of={hop.received ?? 0} />,
        ...spread(hop.rtt_ns, (hop.received ?? 0) > 0),
        <Ns key="kept" of={hop.kept_ns ?? 0} />,
        <MaybeNs key="slow" of={hop.slow_ns} />,
    ];
}
