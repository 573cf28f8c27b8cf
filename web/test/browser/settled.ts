// Waiting for a page until it no longer changes by itself.

import type { Page } from "playwright-core";

/** Waits until the layout is the same for some frames: pictures are drawn when their width is known,
 * which is after the next layout. */
export async function settled(page: Page): Promise<void> {
    await page.evaluate(async () => {
        const frame = () => new Promise(requestAnimationFrame);
        const look = () => {
            const { scrollWidth, scrollHeight } = document.documentElement;
            const pictures = document.querySelectorAll("svg *, canvas").length;
            return [scrollWidth, scrollHeight, pictures].join();
        };
        let [before, same] = [look(), 0];
        while (same < 4) {
            await frame();
            const now = look();
            same = now === before ? same + 1 : 0;
            before = now;
        }
    });
}
