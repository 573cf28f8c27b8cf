// The waterfall of single exchanges: setup, waits, and the stages at the server's host.

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Range } from "../density.ts";
import type { Picture, PicturedExchange } from "../document/picture.ts";
import type { Owner } from "../document.ts";
import { chosen, type Filter, isSame, longestWait, mainOwner, type Order } from "../exchange.ts";
import { Select } from "../parts/choice.tsx";
import { MaybeNs, Ns, OwnerMark, Text } from "../parts/figure.tsx";
import { Twin } from "../parts/table.tsx";
import { View } from "../parts/view.tsx";
import { after, count, counted } from "../quantity.ts";
import type { Listed } from "../served.ts";
import { visible } from "../visible.ts";
import { OWNERS, waitWords } from "../words.ts";
import { Detail } from "./waterfall/detail.tsx";
import { List } from "./waterfall/list.tsx";

interface Props {
    picture: Picture;
    range: Range | null;
    /** The exchanges of the selection, where the reader has asked for them. */
    listed: Listed | null;
}

export function Waterfall({ picture, range, listed }: Props) {
    const [filter, setFilter] = useState<Filter>({ owner: "", cause: "", text: "", range: null });
    const [order, setOrder] = useState<Order>("latency");
    const [isOneScale, setOneScale] = useState(true);
    const [open, setOpen] = useState<PicturedExchange | null>(null);
    const start = picture.raster.start_ns;
    const exchanges = listed?.exchanges ?? picture.exchanges;
    // The instants of a list are exact where it was made, and rounded here.
    const within = listed ? null : range;
    const shown = useMemo(
        () => chosen(exchanges, { ...filter, range: within }, order, start),
        [exchanges, filter, within, order, start],
    );
    useEffect(() => {
        setOpen(null);
        if (listed) {
            document.querySelector<HTMLElement>("#waterfall [role=listbox]")?.focus();
        }
    }, [listed]);
    return (
        <View id="waterfall" title="Exchanges" says={says(picture, range, listed)}>
            <Controls
                causes={causesOf(picture)}
                filter={filter}
                onFilter={setFilter}
                order={order}
                onOrder={setOrder}
                isOneScale={isOneScale}
                onScale={setOneScale}
            />
            <p aria-live="polite" class="muted">
                {count(shown.length)} of {counted(exchanges.length, "exchange")}.
            </p>
            <List
                all={picture.exchanges}
                shown={shown}
                isOneScale={isOneScale}
                open={open}
                onOpen={setOpen}
            />
            {open && (
                <Detail
                    exchange={open}
                    number={picture.exchanges.findIndex((one) => isSame(one, open))}
                    start={start}
                    onClose={() => setOpen(null)}
                />
            )}
            <ExchangeTable shown={shown} start={start} />
        </View>
    );
}

function says(picture: Picture, range: Range | null, listed: Listed | null): string {
    if (listed) {
        const most = listed.exchanges.length;
        const part = most < listed.total ? `The ${count(most)} slowest of ` : "";
        return `${part}${counted(listed.total, "exchange")} of the selection in “Latency over time”, from the capture. Choose one to see its waits and packets. Without the selection, the exchanges of the page are shown again.`;
    }
    const why = (reason: string) => picture.exchanges.filter((one) => one.why === reason).length;
    const [slowest, examples, sample] = ["slowest", "example", "sample"].map(why) as [
        number,
        number,
        number,
    ];
    const kinds = [
        slowest > 0 && `the ${count(slowest)} slowest`,
        examples > 0 && counted(examples, "example"),
        sample > 0 && `a uniform sample of ${count(sample)}`,
    ].filter(Boolean);
    const hasLane = picture.exchanges.some((one) => (one.at_host ?? []).length > 0);
    const lane = hasLane
        ? "The lower lane is the time at the server's host, as its kernel saw it. "
        : "";
    const selected = range ? " The selection in “Latency over time” applies." : "";
    return `Single exchanges: ${kinds.join(", ")}. Each bar is one exchange; its parts are the waits in their order, after the connection's setup (grey) where it began with one. ${lane}Choose one to see its waits and packets.${selected}`;
}

function causesOf(picture: Picture): string[] {
    return [...new Set(picture.exchanges.flatMap((one) => one.shows ?? []))].sort();
}

interface ControlProps {
    causes: string[];
    filter: Filter;
    onFilter(filter: Filter): void;
    order: Order;
    onOrder(order: Order): void;
    isOneScale: boolean;
    onScale(isOneScale: boolean): void;
}

function Controls({ causes, filter, onFilter, order, onOrder, isOneScale, onScale }: ControlProps) {
    return (
        <form class="controls" onSubmit={(event) => event.preventDefault()}>
            <Select
                label="Owner"
                value={filter.owner}
                options={[["", "any"], ...OWNERS.map((owner): [string, string] => [owner, owner])]}
                onChange={(owner) => onFilter({ ...filter, owner: owner as Owner | "" })}
            />
            {causes.length > 0 && (
                <Select
                    label="Example of"
                    value={filter.cause}
                    options={[
                        ["", "any cause"],
                        ...causes.map((it): [string, string] => [it, visible(it)]),
                    ]}
                    onChange={(cause) => onFilter({ ...filter, cause })}
                />
            )}
            <label>
                Text{" "}
                <input
                    type="search"
                    value={filter.text}
                    onInput={(event) => onFilter({ ...filter, text: event.currentTarget.value })}
                />
            </label>
            <Select
                label="Order"
                value={order}
                options={[
                    ["latency", "slowest first"],
                    ["start", "by start"],
                    ["cost", "most wait first"],
                ]}
                onChange={(value) => onOrder(value as Order)}
            />
            <label>
                <input
                    type="checkbox"
                    checked={isOneScale}
                    onInput={(event) => onScale(event.currentTarget.checked)}
                />{" "}
                one scale
            </label>
        </form>
    );
}

function ExchangeTable({ shown, start }: { shown: PicturedExchange[]; start: number }) {
    const columns = [
        { head: "Request" },
        { head: "Outcome" },
        { head: "Start", isNumber: true },
        { head: "Setup", isNumber: true },
        { head: "Latency", isNumber: true },
        { head: "Longest wait" },
        { head: "Owner of most" },
        { head: "Client" },
        { head: "Server" },
    ];
    const row = (one: PicturedExchange) => [
        <Text key="request" of={one.request || "–"} />,
        <Text key="outcome" of={one.outcome} />,
        after(one.start_ns - start),
        <MaybeNs key="setup" of={one.setup_ns} />,
        <Ns key="latency" of={one.latency_ns} />,
        waitWords(longestWait(one)),
        <OwnerMark key="owner" of={mainOwner(one)} />,
        <Text key="client" of={one.client} />,
        <Text key="server" of={one.server} />,
    ];
    // The rows of a closed table are not made, so they are given as a function.
    return <Twin caption="Exchanges" columns={columns} rows={() => shown.map(row)} />;
}
