// What the first view of a page holds, and whether anything is cut off.

import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import type { PageDocument } from "../../src/document.ts";
import { settled } from "./settled.ts";

/** The screen on which the first view holds everything that a reader needs to act. */
export const SCREEN = { width: 1400, height: 900 };
/** A telephone. */
const NARROW = { width: 400, height: 800 };
/** The parts of the first view of a diagnosis. */
const PARTS = {
    verdict: "#verdict-title",
    request: "#verdict > article .request .bar",
    wait: "#verdict > article .rungs .gap",
    change: "#verdict > article .act .fix li",
};

/** The verdict, the one request, its packets with the guilty wait, and the best change are on the
 * first screen, as far as the document has them. */
export async function checkFirstView(page: Page, document: PageDocument) {
    await page.setViewportSize(SCREEN);
    await settled(page);
    const bottoms = await page.evaluate((parts) => {
        const bottom = (selector: string) => {
            const element = window.document.querySelector(selector);
            return element ? element.getBoundingClientRect().bottom + scrollY : null;
        };
        return Object.fromEntries(
            Object.entries(parts).map(([name, selector]) => [name, bottom(selector)]),
        );
    }, PARTS);
    for (const name of expected(document)) {
        assert.ok(bottoms[name] != null, `no ${name} on the page`);
    }
    for (const [name, bottom] of Object.entries(bottoms)) {
        assert.ok(bottom == null || bottom <= SCREEN.height, `${name} ends at ${bottom} px`);
    }
}

function expected({ report, picture }: PageDocument): string[] {
    const first = report?.findings[0];
    const parts = ["verdict"];
    if (first && !["load", "probe", "route"].includes(report.command)) {
        const isExample = (one: { client: string; start_ns: number }) =>
            first.exemplars.some((it) => it.client === one.client && it.start_ns === one.start_ns);
        const hasWaits = first.exemplars.some((it) => it.waits.length > 0);
        parts.push(...(hasWaits ? ["request"] : []));
        const ladder = (picture?.ladders ?? []).find(isExample);
        parts.push(...(ladder?.gaps.some((gap) => gap.cause) ? ["wait"] : []));
        parts.push(...(first.fix.length > 0 ? ["change"] : []));
    }
    return parts;
}

/** What may hide a part of its text. */
const CUT = ".unseen, select, input, .waterfall .request";

/** On a telephone, nothing is wider than the screen, nothing has to be scrolled sideways, and no
 * text of a picture is cut off, before a reader opens anything. Names in bars and targets in lists
 * are cut on purpose: their legends have them, and the requests that a reader opens. */
export async function checkNarrow(page: Page) {
    await page.setViewportSize(NARROW);
    await settled(page);
    const found = await page.evaluate((cutOnPurpose) => {
        const name = (element: Element) =>
            `${element.nodeName} ${element.getAttribute("class") ?? ""} ${element.textContent?.slice(0, 60)}`;
        const wide = [...document.querySelectorAll("main *, header *")].filter((element) => {
            const style = getComputedStyle(element);
            const isClip = style.overflowX !== "visible" && !element.closest("svg");
            const isSeen = element.checkVisibility() && !element.matches(cutOnPurpose);
            return isSeen && isClip && element.scrollWidth > element.clientWidth + 1;
        });
        const cut = [...document.querySelectorAll("svg text")].filter((text) => {
            const outer = [...document.querySelectorAll("svg")].find((it) => it.contains(text));
            if (!outer || text.closest(".bar") || !text.checkVisibility()) {
                return false;
            }
            const [box, room] = [text, outer].map((it) => it.getBoundingClientRect());
            return box && room && (box.left < room.left - 2 || box.right > room.right + 2);
        });
        return {
            page: document.documentElement.scrollWidth,
            wide: wide.map(name),
            cut: cut.map(name),
        };
    }, CUT);
    assert.deepEqual(found, { page: NARROW.width, wide: [], cut: [] });
}

/** The page has no markup of the terminal, and no time that a person cannot read. */
export async function checkWords(page: Page) {
    const text = await page.locator("body").innerText();
    assert.doesNotMatch(text, /`/);
    assert.doesNotMatch(text, /\d:\d\d\.\d{7,}/);
}

/** The bars of the mean requests have lengths in proportion to their times. */
export async function checkScale(page: Page) {
    const bars = await page.evaluate(() =>
        [...document.querySelectorAll("#time > .part")].flatMap((part) => {
            const mean = part.querySelector<HTMLElement>("figcaption [data-ns]")?.dataset.ns;
            // Names reach beyond the pieces that cut them.
            const pieces = [...part.querySelectorAll(".bar > g > svg > rect")];
            const ends = pieces.map((piece) => piece.getBoundingClientRect().right);
            const left = part.querySelector(".bar")?.getBoundingClientRect().left ?? 0;
            return mean && ends.length > 0 ? [[Number(mean), Math.max(...ends) - left]] : [];
        }),
    );
    const [most, width] = bars.reduce((a, b) => ((b[0] ?? 0) > (a[0] ?? 0) ? b : a), [0, 0]);
    for (const [ns = 0, px = 0] of bars) {
        const due = ((width ?? 0) * ns) / Math.max(most ?? 0, 1);
        assert.ok(Math.abs(px - due) <= 2, `${ns} ns is ${px} px long, not ${due}`);
    }
}

/** Where the capture lacks packets, the picture of latency over time says so. */
export async function checkGaps(page: Page, { picture }: PageDocument) {
    const marks = await page.locator(".raster rect.gaps").count();
    const columns = new Set(picture?.cut?.cells.map(([, column]) => column));
    const isDrawn = (await page.locator(".raster").count()) > 0;
    assert.equal(marks, isDrawn ? columns.size : 0);
}

/** What is folded is printed, also without the script. */
export async function checkUnfolded(page: Page) {
    await page.emulateMedia({ media: "print" });
    const hidden = await page.evaluate(() =>
        [...document.querySelectorAll("#verdict .fold li, #verdict .fold p")]
            .filter((element) => element.getBoundingClientRect().height === 0)
            .map((element) => element.textContent?.slice(0, 60)),
    );
    assert.deepEqual(hidden, []);
    await page.emulateMedia({ media: "screen" });
}
