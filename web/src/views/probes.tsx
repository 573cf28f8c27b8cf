// Round trips by method: from the minimum to the maximum, with median and 99th percentile.

import type { Probe } from "../document/report.ts";
import { Count, Ns, Text } from "../parts/figure.tsx";
import { Ranges } from "../parts/ranges.tsx";
import { Twin } from "../parts/table.tsx";
import { View } from "../parts/view.tsx";
import { visible } from "../visible.ts";

export function Probes({ probes }: { probes: Probe[] }) {
    const answered = probes.filter((probe) => probe.received > 0);
    const hasTargets = new Set(probes.map((probe) => probe.target)).size > 1;
    const name = (probe: Probe) =>
        visible(`${probe.method}, ${probe.during}${hasTargets ? `, ${probe.target}` : ""}`);
    const numbers = ["Sent", "Received", "Lost", "Minimum", "Median", "p99", "Maximum", "Jitter"];
    return (
        <View
            id="probes"
            title="Probes"
            says="The round trips of each method, from the minimum to the maximum; the marks are the median and the 99th percentile. Probes that were not answered are in the table only."
        >
            {answered.length > 0 && (
                <Ranges
                    label="Round trips by method; the table below lists them."
                    rows={answered.map((probe) => ({
                        name: name(probe),
                        low: probe.rtt_ns.min,
                        high: probe.rtt_ns.max,
                        marks: [probe.rtt_ns.p50, probe.rtt_ns.p99],
                    }))}
                />
            )}
            <Twin
                caption="Probes"
                columns={["Method", "Target", "During", ...numbers].map((head) => ({
                    head,
                    isNumber: numbers.includes(head),
                }))}
                rows={probes.map((probe) => [
                    <Text key="method" of={probe.method} />,
                    <Text key="target" of={probe.target} />,
                    <Text key="during" of={probe.during} />,
                    ...[probe.sent, probe.received, probe.lost].map((n, i) => (
                        <Count key={i} of={n} />
                    )),
                    ...[probe.rtt_ns.min, probe.rtt_ns.p50, probe.rtt_ns.p99, probe.rtt_ns.max].map(
                        (ns, i) => (probe.received > 0 ? <Ns key={i} of={ns} /> : "–"),
                    ),
                    <Ns key="jitter" of={probe.jitter_ns} />,
                ])}
            />
        </View>
    );
}
