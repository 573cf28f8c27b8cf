// The list of bars. Only the rows in sight are in the page, however many there are.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { PicturedExchange } from "../../document/picture.ts";
import { isSame, longestWait } from "../../exchange.ts";
import { useWidth } from "../../parts/hooks.ts";
import { duration } from "../../quantity.ts";
import { visible } from "../../visible.ts";
import { waitWords } from "../../words.ts";
import { Bar } from "./bar.tsx";

const ROW_PX = 34;
/** Rows in sight. */
const MOST_ROWS = 14;
/** Rows beyond the edges, so that scrolling shows no blank. */
const SPARE_ROWS = 6;
/** Below this width, the request stands above its bar. */
const NARROW_PX = 640;

interface Props {
    /** The exchanges of the document. */
    all: PicturedExchange[];
    shown: PicturedExchange[];
    isOneScale: boolean;
    open: PicturedExchange | null;
    onOpen(exchange: PicturedExchange): void;
}

export function List({ all, shown, isOneScale, open, onOpen }: Props) {
    const [ref, width] = useWidth<HTMLDivElement>();
    const [top, setTop] = useState(0);
    const [active, setActive] = useState<PicturedExchange | null>(null);
    const at = Math.max(indexOf(shown, active), 0);
    const most = useMemo(() => Math.max(...spans(shown), 1), [shown]);
    const rowPx = width < NARROW_PX ? ROW_PX + 16 : ROW_PX;
    const first = Math.max(Math.floor(top / rowPx) - SPARE_ROWS, 0);
    const visible = shown.slice(first, first + MOST_ROWS + 2 * SPARE_ROWS);
    // A row that was scrolled away is not in the page.
    const isInSight = at >= first && at < first + visible.length;
    usePlace(ref.current, all, shown, rowPx);
    const onMove = (to: number) => setActive(shown[to] ?? null);
    const onKeyDown = useListKeys(ref.current, rowPx, shown.length, at, onMove, () => {
        const exchange = shown[at];
        if (exchange) {
            onOpen(exchange);
        }
    });
    return (
        <div
            class="waterfall"
            ref={ref}
            role="listbox"
            tabIndex={0}
            aria-label="Exchanges. Up and down move, Enter opens one."
            aria-activedescendant={isInSight ? `exchange-${at}` : undefined}
            onScroll={(event) => setTop(event.currentTarget.scrollTop)}
            onKeyDown={onKeyDown}
        >
            <div class="sizer" style={{ height: `${shown.length * rowPx}px` }}>
                {visible.map((exchange, i) => (
                    <Row
                        key={first + i}
                        exchange={exchange}
                        index={first + i}
                        of={shown.length}
                        rowPx={rowPx}
                        width={width}
                        scale={isOneScale ? most : span(exchange)}
                        isActive={first + i === at}
                        isOpen={isSame(exchange, open)}
                        onOpen={() => {
                            setActive(exchange);
                            onOpen(exchange);
                        }}
                    />
                ))}
            </div>
        </div>
    );
}

function indexOf(shown: PicturedExchange[], wanted: PicturedExchange | null): number {
    return shown.findIndex((one) => isSame(one, wanted));
}

/** Keeps the rows in sight where they are when another version of the document has rows between. */
function usePlace(
    list: HTMLElement | null,
    all: PicturedExchange[],
    shown: PicturedExchange[],
    rowPx: number,
) {
    const before = useRef({ all, shown });
    useLayoutEffect(() => {
        const first = Math.floor((list?.scrollTop ?? 0) / rowPx);
        const now = indexOf(shown, before.current.shown[first] ?? null);
        // A filter or an order of the reader's moves rows as it should.
        // At its top the list shows whatever comes first.
        if (list && list.scrollTop > 0 && now >= 0 && before.current.all !== all) {
            list.scrollTop += (now - first) * rowPx;
        }
        before.current = { all, shown };
    });
}

/** Time from the connection's setup to the end. */
function span(exchange: PicturedExchange): number {
    return (exchange.setup_ns ?? 0) + exchange.latency_ns;
}

function spans(shown: PicturedExchange[]): number[] {
    return shown.map(span);
}

interface RowProps {
    exchange: PicturedExchange;
    index: number;
    of: number;
    rowPx: number;
    width: number;
    scale: number;
    isActive: boolean;
    isOpen: boolean;
    onOpen(): void;
}

function Row({ exchange, index, of, rowPx, width, scale, isActive, isOpen, onOpen }: RowProps) {
    const isNarrow = width < NARROW_PX;
    const labelPx = isNarrow ? 0 : Math.min(Math.round(width * 0.28), 340);
    const figurePx = 76;
    const barPx = Math.max(width - labelPx - figurePx - 24, 40);
    return (
        // The keys are those of the list, which has the focus.
        // biome-ignore lint/a11y/useKeyWithClickEvents: see above.
        // biome-ignore lint/a11y/useFocusableInteractive: see above.
        <div
            id={`exchange-${index}`}
            role="option"
            aria-selected={isOpen}
            aria-setsize={of}
            aria-posinset={index + 1}
            class={`row${isActive ? " active" : ""}${isOpen ? " open" : ""}`}
            style={{ top: `${index * rowPx}px`, height: `${rowPx}px` }}
            onClick={onOpen}
        >
            <span class="request" style={isNarrow ? {} : { width: `${labelPx}px` }}>
                <bdi>{visible(exchange.request || exchange.client)}</bdi>{" "}
                <span class="muted">{visible(exchange.outcome)}</span>
            </span>
            <span class="unseen">mostly {waitWords(longestWait(exchange))}</span>
            <Bar exchange={exchange} width={barPx} scale={scale} />
            <span class="figure" data-ns={exchange.latency_ns}>
                {duration(exchange.latency_ns)}
            </span>
        </div>
    );
}

const MOVES: Record<string, number> = {
    ArrowUp: -1,
    ArrowDown: 1,
    PageUp: -MOST_ROWS,
    PageDown: MOST_ROWS,
    Home: Number.NEGATIVE_INFINITY,
    End: Number.POSITIVE_INFINITY,
};

/** The keys of a list box; the active row is scrolled into sight. */
function useListKeys(
    element: HTMLElement | null,
    rowPx: number,
    length: number,
    at: number,
    onMove: (at: number) => void,
    onOpen: () => void,
) {
    const list = useRef(element);
    list.current = element;
    return (event: KeyboardEvent) => {
        const move = MOVES[event.key];
        if (event.key === "Enter" || event.key === " ") {
            event.preventDefault();
            onOpen();
        } else if (move !== undefined && length > 0) {
            event.preventDefault();
            const next = Math.min(Math.max(at + move, 0), length - 1);
            onMove(next);
            scrollTo(list.current, next * rowPx, rowPx);
        }
    };
}

function scrollTo(list: HTMLElement | null, top: number, rowPx: number) {
    if (!list) {
        return;
    }
    const low = top + rowPx - list.clientHeight;
    list.scrollTop = Math.min(Math.max(list.scrollTop, low), top);
}
