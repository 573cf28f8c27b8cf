// Interventions: requests with and without each, and the difference with its interval.

import type { ExperimentOutcome } from "../document/report.ts";
import { experimentWords } from "../experiment.ts";
import { Count, cells, Difference, Prose, Text } from "../parts/figure.tsx";
import { Ranges, rangeOf } from "../parts/ranges.tsx";
import { columns, Twin } from "../parts/table.tsx";
import { View } from "../parts/view.tsx";

const NUMBERS = [
    "Control, mean",
    "Treated, mean",
    "Control, p99",
    "Treated, p99",
    "Difference of the means",
    "95 % from",
    "to",
    "Alternations",
];

export function Experiments({ outcomes }: { outcomes: ExperimentOutcome[] }) {
    const rows = outcomes.flatMap((it) => [
        {
            name: `without: ${experimentWords(it.experiment)}`,
            ...rangeOf(it.control),
            kind: "control",
        },
        {
            name: `with: ${experimentWords(it.experiment)}`,
            ...rangeOf(it.treated),
            kind: "treated",
        },
    ]);
    return (
        <View
            id="experiments"
            title="Experiments"
            says="Requests with and without each intervention, interleaved: from the minimum to the maximum; the marks are the median and the 99th percentile."
        >
            <Ranges
                label="Latency with and without each intervention; the table below lists it."
                rows={rows}
            />
            {outcomes.map((it, i) => (
                <p key={i}>
                    {experimentWords(it.experiment)}: <Prose of={it.meaning} />
                </p>
            ))}
            <Twin
                caption="Experiments"
                columns={columns(["Intervention", "Target"], NUMBERS)}
                rows={outcomes.map((it) => [
                    experimentWords(it.experiment),
                    <Text key="target" of={it.target} />,
                    ...cells([it.control.mean, it.treated.mean, it.control.p99, it.treated.p99]),
                    <Difference key="difference" of={it.difference_ns} />,
                    <Difference key="low" of={it.difference_low_ns} />,
                    <Difference key="high" of={it.difference_high_ns} />,
                    <Count key="alternations" of={it.alternations} />,
                ])}
            />
        </View>
    );
}
