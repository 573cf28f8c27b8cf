// Round trips by method: from the minimum to the maximum, with median and 99th percentile.

import type { Probe } from "../document/report.ts";
import { Count, Ns, spread, Text } from "../parts/figure.tsx";
import { Ranges, rangeOf } from "../parts/ranges.tsx";
import { columns, Twin } from "../parts/table.tsx";
import { View } from "../parts/view.tsx";
import { visible } from "../visible.ts";

const NUMBERS = ["Sent", "Received", "Lost", "Minimum", "Median", "p99", "Maximum", "Jitter"];

export function Probes({ probes }: { probes: Probe[] }) {
    const answered = probes.filter((probe) => probe.received > 0);
    const hasTargets = new Set(probes.map((probe) => probe.target)).size > 1;
    const name = (probe: Probe) =>
        visible(`${probe.method}, ${probe.during}${hasTargets ? `, ${probe.target}` : ""}`);
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
                        ...rangeOf(probe.rtt_ns),
                    }))}
                />
            )}
            <Twin
                caption="Probes"
                columns={columns(["Method", "Target", "During"], NUMBERS)}
                rows={probes.map((probe) => [
                    <Text key="method" of={probe.method} />,
                    <Text key="target" of={probe.target} />,
                    <Text key="during" of={probe.during} />,
                    ...[probe.sent, probe.received, probe.lost].map((n, i) => (
                        <Count key={i} of={n} />
                    )),
                    ...spread(probe.rtt_ns, probe.received > 0),
                    <Ns key="jitter" of={probe.jitter_ns} />,
                ])}
            />
        </View>
    );
}
