// The bar of one exchange: setup, waits, and below them the stages at the server's host.

import type { PicturedExchange } from "../../document/picture.ts";
import { knownOwner, LETTERS } from "../../words.ts";

const WAIT_PX = 14;
const STAGE_PX = 6;
/** Minimum width for a letter. */
const LETTER_PX = 14;

interface Part {
    x: number;
    width: number;
}

interface Props {
    exchange: PicturedExchange;
    width: number;
    /** Time that the whole width stands for. */
    scale: number;
}

export function Bar({ exchange, width, scale }: Props) {
    const px = (ns: number) => (ns / Math.max(scale, 1)) * width;
    const setup = px(exchange.setup_ns ?? 0);
    const stages = exchange.at_host ?? [];
    const waits = tiled(exchange.waits, setup, px);
    return (
        <svg class="bar" width={width} height={WAIT_PX + STAGE_PX + 2} aria-hidden="true">
            {setup > 0 && <rect class="setup" x={0} width={setup} y={0} height={WAIT_PX} />}
            {waits.map((part, i) => (
                <Wait key={i} part={part} owner={exchange.waits[i]?.owner ?? "unknown"} />
            ))}
            {tiled(stages, setup + hostStart(exchange, px), px).map((part, i) => (
                <rect
                    key={i}
                    class={`stage stage-${i % 2}`}
                    x={part.x}
                    width={Math.max(part.width, 0.5)}
                    y={WAIT_PX + 2}
                    height={STAGE_PX}
                />
            ))}
        </svg>
    );
}

function Wait({ part, owner }: { part: Part; owner: PicturedExchange["waits"][number]["owner"] }) {
    const known = knownOwner(owner);
    return (
        <>
            <rect
                class={`owner-${known}`}
                x={part.x}
                width={Math.max(part.width, 0.5)}
                y={0}
                height={WAIT_PX}
            />
            {part.width >= LETTER_PX && (
                <text class={`letter owner-${known}`} x={part.x + part.width / 2} y={WAIT_PX - 3}>
                    {LETTERS[known]}
                </text>
            )}
        </>
    );
}

function tiled(parts: { duration_ns: number }[], from: number, px: (ns: number) => number): Part[] {
    let x = from;
    return parts.map(({ duration_ns }) => {
        const part = { x, width: px(duration_ns) };
        x += part.width;
        return part;
    });
}

/** The stages have no instants of their own. They begin at the host when the request has crossed the
 * path: at the first of the server's waits, the earliest place that agrees with the packets. */
function hostStart(exchange: PicturedExchange, px: (ns: number) => number): number {
    const first = exchange.waits.findIndex((wait) => wait.owner === "server");
    const before = exchange.waits.slice(0, Math.max(first, 0));
    return px(before.reduce((sum, wait) => sum + wait.duration_ns, 0));
}
