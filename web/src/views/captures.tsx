// Two captures of the same connections: clocks, one-way delays, and where the time passed.

import type { Joined, Place, Way } from "../document/report.ts";
import { Count, cells, Difference, Ns, Share, spread, Text } from "../parts/figure.tsx";
import { Ranges, rangeOf } from "../parts/ranges.tsx";
import { Stack } from "../parts/stack.tsx";
import { columns, Twin } from "../parts/table.tsx";
import { View } from "../parts/view.tsx";
import { counted, duration, share } from "../quantity.ts";

const PLACES: Record<string, string> = {
    "client-host": "client’s host",
    "client-to-server-path": "path from client to server",
    "server-host": "server’s host",
    "server-to-client-path": "path from server to client",
    unknown: "not known",
};

const KINDS: Record<string, string> = {
    "client-host": "owner-client",
    "client-to-server-path": "owner-path",
    "server-host": "owner-server",
    "server-to-client-path": "owner-path",
};

const WAYS: Record<string, string> = {
    "client-to-server": "client to server",
    "server-to-client": "server to client",
};

export function Captures({ joined }: { joined: Joined }) {
    return (
        <View
            id="captures"
            title="Two captures"
            says="The same packets seen at both ends: where the time of the exchanges passed, and how long the packets took each way (from the minimum to the maximum; the marks are the median and the 99th percentile)."
        >
            <Clock joined={joined} />
            {joined.places.length > 0 && <Places places={joined.places} />}
            <Ways ways={joined.ways} />
        </View>
    );
}

function Clock({ joined }: { joined: Joined }) {
    const { clock } = joined;
    return (
        <p>
            <Text of={joined.client_capture} /> is nearer to the clients,{" "}
            <Text of={joined.server_capture} /> to the servers;
            {counted(joined.connections, "connection")} and {counted(joined.packets, "packet")} are
            in both
            {joined.is_partial && ", as far as they were compared"}. The server’s clock differs by{" "}
            <Difference of={clock.offset_ns} />, known to ±<Ns of={clock.offset_error_ns} />, and
            gains <Count of={clock.drift_ppb} /> ns a second.
        </p>
    );
}

function Places({ places }: { places: Place[] }) {
    const name = (place: Place) => PLACES[place.place] ?? place.place;
    return (
        <>
            <Stack
                label="The time of the exchanges by place; the table below lists it."
                rows={places.map((place) => ({
                    name: name(place),
                    parts: [
                        {
                            value: place.total_ns - place.loss_ns,
                            kind: KINDS[place.place] ?? "owner-unknown",
                        },
                        { value: place.loss_ns, kind: "loss" },
                    ],
                    figure: `${duration(place.total_ns)} (${share(place.share)})`,
                }))}
            />
            <Twin
                caption="Time by place"
                columns={columns(["Place"], ["Total", "Of it repair of losses", "Share"])}
                rows={places.map((place) => [
                    name(place),
                    ...cells([place.total_ns, place.loss_ns]),
                    <Share key="share" of={place.share} />,
                ])}
            />
        </>
    );
}

const NUMBERS = [
    "Packets",
    "Minimum",
    "Median",
    "p99",
    "Maximum",
    "Lost",
    "Resent needlessly",
    "ACKs lost",
];

function Ways({ ways }: { ways: Way[] }) {
    const name = (way: Way) => WAYS[way.direction] ?? way.direction;
    const timed = ways.filter((way) => way.delay_ns.count > 0);
    return (
        <>
            {timed.length > 0 && (
                <Ranges
                    label="One-way delays; the table below lists them."
                    rows={timed.map((way) => ({
                        name: name(way),
                        ...rangeOf(way.delay_ns),
                    }))}
                />
            )}
            <Twin
                caption="One-way delays"
                columns={columns(["Way"], NUMBERS)}
                rows={ways.map((way) => [
                    name(way),
                    <Count key="count" of={way.delay_ns.count} />,
                    ...spread(way.delay_ns),
                    ...[way.lost, way.needless, way.acks_lost].map((n, i) => (
                        <Count key={i} of={n} />
                    )),
                ])}
            />
        </>
    );
}
