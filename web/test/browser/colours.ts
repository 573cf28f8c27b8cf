// The colours that pictures have been drawn with.

import type { Page } from "playwright-core";
import { COLOURS, OWNERS } from "../../src/words.ts";

/** Returns the owners whose colours are in the picture of latency over time; null without one. The
 * colours are compared without their opacity. */
export async function drawnOwners(page: Page): Promise<string[] | null> {
    const pixels = await page.evaluate(() => {
        const canvas = document.querySelector<HTMLCanvasElement>(".raster canvas");
        const context = canvas?.getContext("2d");
        if (!canvas || !context) {
            return null;
        }
        const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
        const seen = new Set<string>();
        for (let i = 0; i < data.length; i += 4) {
            if ((data[i + 3] ?? 0) > 0) {
                seen.add(`${data[i]} ${data[i + 1]} ${data[i + 2]}`);
            }
        }
        return [...seen];
    });
    return pixels?.flatMap((pixel) => ownerOf(pixel.split(" ").map(Number)) ?? []) ?? null;
}

/** Opacity is stored with eight bits, so a colour may be off by a little. */
const MOST_OFF = 6;

function ownerOf(colour: number[]): string | null {
    const isNear = (owner: (typeof OWNERS)[number]) =>
        COLOURS[owner].every((value, i) => Math.abs(value - (colour[i] ?? 0)) <= MOST_OFF);
    return OWNERS.find(isNear) ?? null;
}
