// A connection over time: sequence numbers with windows, bytes in flight, round trips.

import { useMemo, useState } from "preact/hooks";
import type { PicturedConnection, Series, WaySeries } from "../document/picture.ts";
import { Chart, type ChartSeries } from "../parts/chart.tsx";
import { Choice, Select } from "../parts/choice.tsx";
import { Count, MaybeNs, Text } from "../parts/figure.tsx";
import { columns, Twin } from "../parts/table.tsx";
import { View } from "../parts/view.tsx";
import { bytes, counted, duration } from "../quantity.ts";
import { join } from "../series.ts";
import { visible } from "../visible.ts";

const SEQUENCE: ChartSeries[] = [
    { label: "allowed by the window", colour: "curve-4", kind: "steps" },
    { label: "acknowledged", colour: "curve-1", kind: "steps" },
    { label: "sent", colour: "curve-2", kind: "points" },
    { label: "sent again", colour: "curve-3", kind: "crosses" },
];
const FLIGHT: ChartSeries[] = [{ label: "in flight", colour: "curve-2", kind: "steps" }];
const TRIPS: ChartSeries[] = [{ label: "round trip", colour: "curve-2", kind: "points" }];

interface Props {
    connections: PicturedConnection[];
    id?: string;
    /** Whose connections they are: names differ from those of another view on the page. */
    of?: string;
}

export function Connections({ connections, id = "connection", of = "examples" }: Props) {
    const [at, setAt] = useState(0);
    const connection = connections[at];
    const [chosen, setWay] = useState<number | null>(null);
    if (!connection) {
        return null;
    }
    // The way with more data is where the time is, unless the reader chooses.
    const busier = last(connection.ways[0].sent) > last(connection.ways[1].sent) ? 0 : 1;
    const way = chosen ?? busier;
    const names = connections.map(
        (one) => `${visible(one.cause ?? "slowest")}, ${visible(one.client)}`,
    );
    return (
        <View
            id={id}
            title={`Connections of ${of}`}
            says="The data of one direction over time: each mark is the end of a segment. The gap between “acknowledged” and “allowed by the window” is what the receiver lets the sender have in flight."
        >
            <Choice label="Connection" names={names} value={at} onChange={setAt} />
            <p class="controls">
                <Select
                    label="Data from"
                    value={String(way)}
                    options={[
                        ["0", "client"],
                        ["1", "server"],
                    ]}
                    onChange={(value) => setWay(Number(value))}
                />
            </p>
            <p>
                From <Text of={connection.client} /> to <Text of={connection.server} />,{" "}
                {counted(connection.packets, "packet")}.
            </p>
            <Charts way={connection.ways[way === 0 ? 0 : 1]} of={of} />
        </View>
    );
}

function Charts({ way, of }: { way: WaySeries; of: string }) {
    const sequence = useMemo(
        () => join([way.allowed, way.acknowledged, way.sent, way.resent]),
        [way],
    );
    const flight = useMemo(() => join([way.in_flight]), [way]);
    const trips = useMemo(() => join([way.round_trips]), [way]);
    const x = { label: "time", values: duration };
    const y = { label: "bytes", values: bytes };
    const trip = { label: "round trip", values: duration };
    return (
        <>
            <Chart
                label="Sequence numbers"
                height={300}
                data={sequence}
                series={SEQUENCE}
                {...{ x, y }}
            />
            <Chart
                label="Bytes in flight"
                height={180}
                data={flight}
                series={FLIGHT}
                {...{ x, y }}
            />
            <Chart label="Round trips" height={180} data={trips} series={TRIPS} x={x} y={trip} />
            <SeriesTable way={way} of={of} />
        </>
    );
}

function last(series: Series): number {
    return series.at(-1)?.[1] ?? 0;
}

function extent(series: Series): [number, number] | null {
    const values = series.map(([, value]) => value);
    const least = (a: number, b: number) => Math.min(a, b);
    const most = (a: number, b: number) => Math.max(a, b);
    return values.length > 0 ? [values.reduce(least), values.reduce(most)] : null;
}

const NUMBERS = ["Points", "First at", "Last at", "Least", "Greatest"];

function SeriesTable({ way, of }: { way: WaySeries; of: string }) {
    const rows: [string, Series, boolean][] = [
        ["sent", way.sent, false],
        ["sent again", way.resent, false],
        ["acknowledged", way.acknowledged, false],
        ["allowed by the window", way.allowed, false],
        ["in flight", way.in_flight, false],
        ["round trip", way.round_trips, true],
    ];
    return (
        <Twin
            caption={`Figures of the connection of ${of}`}
            columns={columns(["Series"], NUMBERS)}
            rows={rows.map(([name, series, isTime]) => {
                const range = extent(series);
                const value = (v: number | undefined) =>
                    v === undefined ? "–" : isTime ? <MaybeNs of={v} /> : <Count of={v} />;
                return [
                    name,
                    counted(series.length, "point"),
                    <MaybeNs key="first" of={series[0]?.[0]} />,
                    <MaybeNs key="last" of={series.at(-1)?.[0]} />,
                    value(range?.[0]),
                    value(range?.[1]),
                ];
            })}
        />
    );
}
