// Sockets and their options, and the kernel's limits on them. All but the calls are tables by nature;
// those that are wider than a telephone are folded.

import type { Picture } from "../document/picture.ts";
import type { Limit, LiveSocket, Report, SocketGroup, Tally } from "../document/report.ts";
import { Count, MaybeNs, Prose, Text } from "../parts/figure.tsx";
import { columns, Table, Twin } from "../parts/table.tsx";
import { View } from "../parts/view.tsx";
import { SocketCalls } from "./sockets/calls.tsx";

interface Props {
    report: Report;
    picture: Picture | null | undefined;
}

export function hasSockets({ report, picture }: Props): boolean {
    const lists = [report.sockets, report.live, report.limits, picture?.sockets];
    return lists.some((list) => (list ?? []).length > 0);
}

export function Sockets({ report, picture }: Props) {
    const { sockets = [], live = [], limits = [] } = report;
    const called = picture?.sockets ?? [];
    return (
        <View
            id="sockets"
            title="Sockets"
            says="The sockets that were sampled, by owner and options, and the kernel settings that limit them. A figure such as “12 of 40” counts samples."
        >
            {called.length > 0 && <SocketCalls sockets={called} />}
            {sockets.length > 0 && <Groups groups={sockets} />}
            {live.length > 0 && <Live sockets={live} />}
            {limits.length > 0 && <Limits limits={limits} />}
        </View>
    );
}

function Of({ tally }: { tally: Tally | null }) {
    return tally === null ? (
        <>–</>
    ) : (
        <>
            <Count of={tally.count} /> of <Count of={tally.of} />
        </>
    );
}

function Groups({ groups }: { groups: SocketGroup[] }) {
    const tallies = ["TCP_NODELAY", "TCP_CORK", "TCP_QUICKACK", "Held back"];
    return (
        <Twin
            caption="Sockets by owner"
            columns={columns(["Owner", "Target"], ["Sockets", "Samples", ...tallies])}
            rows={groups.map((group) => [
                <Text key="owner" of={group.owner} />,
                <Text key="target" of={group.target} />,
                <Count key="sockets" of={group.sockets} />,
                <Count key="samples" of={group.samples} />,
                ...[group.nodelay, group.cork, group.quickack, group.holding].map((tally, i) => (
                    <Of key={i} tally={tally} />
                )),
            ])}
        />
    );
}

function onOff(value: boolean | null | undefined): string {
    return value == null ? "–" : value ? "on" : "off";
}

function Live({ sockets }: { sockets: LiveSocket[] }) {
    const words = ["Local", "Peer", "State", "Process", "TCP_NODELAY", "TCP_CORK", "Remarks"];
    const numbers = [
        "Received, unread",
        "Sent, waiting",
        "Round trip",
        "RTO",
        "cwnd",
        "Retransmitted",
    ];
    const row = (socket: LiveSocket) => [
        <Text key="local" of={socket.local} />,
        <Text key="remote" of={socket.remote} />,
        <Text key="state" of={socket.state} />,
        <Text
            key="process"
            of={socket.holders.map((it) => `${it.name}[${it.pid}]`).join(", ") || "–"}
        />,
        onOff(socket.options?.nodelay),
        onOff(socket.options?.cork),
        <Prose key="remarks" of={socket.remarks.join(" ") || "–"} />,
        <Count key="receive" of={socket.receive_queue} />,
        <Count key="send" of={socket.send_queue} />,
        <MaybeNs key="rtt" of={socket.tcp?.rtt_ns} />,
        <MaybeNs key="rto" of={socket.tcp?.rto_ns} />,
        socket.tcp ? <Count key="cwnd" of={socket.tcp.cwnd} /> : "–",
        socket.tcp ? <Count key="retrans" of={socket.tcp.total_retrans} /> : "–",
    ];
    return (
        <Twin
            caption="Sockets of this host"
            columns={columns(words, numbers)}
            rows={sockets.map(row)}
        />
    );
}

const BEARINGS: Record<Limit["bearing"], string> = {
    shown: "not known",
    cleared: "not reached",
    evidence: "reached",
};

function Limits({ limits }: { limits: Limit[] }) {
    return (
        <Table
            caption="Kernel limits"
            columns={columns(["Setting", "Value", "Effect", "Evidence"], [])}
            rows={limits.map((limit) => [
                <Text key="name" of={limit.name} />,
                <Text key="value" of={limit.value} />,
                BEARINGS[limit.bearing] ?? limit.bearing,
                <Prose key="text" of={limit.text ?? "–"} />,
            ])}
        />
    );
}
