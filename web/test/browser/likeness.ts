// Comparison of pictures. The browser reads and writes them, so that no library is needed.

import type { Browser, Page } from "playwright-core";

/** Minimum difference of a colour channel, of 255, that counts: less is the work of the rasterizer. */
const LEAST_DIFFERENCE = 40;

export interface Likeness {
    /** Number of pixels that differ in either picture from its background. */
    drawn: number;
    /** Number of pixels that differ between the pictures. */
    different: number;
}

/** A page in which pictures are read. */
export class Easel {
    private constructor(private readonly page: Page) {}

    static async open(browser: Browser): Promise<Easel> {
        const page = await browser.newPage();
        // The loader of TypeScript names functions with this one, also those that run in the page.
        await page.evaluate("globalThis.__name = (it) => it");
        return new Easel(page);
    }

    /** Returns the picture at half its width and height: each pixel is the mean of four, so that
     * edges may fall otherwise within a pixel. Colours keep five bits, which makes files small. */
    async shrunk(png: Buffer): Promise<Buffer> {
        const base64 = await this.page.evaluate(async (base64) => {
            const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
            const image = await createImageBitmap(new Blob([bytes]));
            const [width, height] = [image.width >> 1, image.height >> 1];
            const canvas = new OffscreenCanvas(image.width, image.height);
            const context = canvas.getContext("2d") as OffscreenCanvasRenderingContext2D;
            context.drawImage(image, 0, 0);
            const { data } = context.getImageData(0, 0, image.width, image.height);
            const small = new ImageData(width, height);
            for (let i = 0; i < small.data.length; i += 1) {
                const [x, y] = [(i >> 2) % width, Math.floor((i >> 2) / width)];
                const at = ((2 * y * image.width + 2 * x) << 2) + (i & 3);
                const below = at + (image.width << 2);
                const four = [at, at + 4, below, below + 4].map((place) => data[place] ?? 0);
                const mean = four.reduce((a, b) => a + b, 0) / 4;
                small.data[i] = (i & 3) === 3 ? 255 : mean & 0xf8;
            }
            canvas.width = width;
            canvas.height = height;
            context.putImageData(small, 0, 0);
            const file = new Uint8Array(await (await canvas.convertToBlob()).arrayBuffer());
            return btoa(Array.from(file, (byte) => String.fromCharCode(byte)).join(""));
        }, png.toString("base64"));
        return Buffer.from(base64, "base64");
    }

    /** Compares two pictures; null if they differ in size. */
    compare(one: Buffer, other: Buffer): Promise<Likeness | null> {
        return this.page.evaluate(
            async ({ pngs, least }) => {
                const read = async (base64: string) => {
                    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
                    const image = await createImageBitmap(new Blob([bytes]));
                    const canvas = new OffscreenCanvas(image.width, image.height);
                    const context = canvas.getContext("2d") as OffscreenCanvasRenderingContext2D;
                    context.drawImage(image, 0, 0);
                    return context.getImageData(0, 0, image.width, image.height);
                };
                const [a, b] = (await Promise.all(pngs.map(read))) as [ImageData, ImageData];
                if (a.width !== b.width || a.height !== b.height) {
                    return null;
                }
                const pixel = ({ data }: ImageData, i: number) => [...data.subarray(i, i + 3)];
                const differ = (p: number[], q: number[]) =>
                    p.some((value, channel) => Math.abs(value - (q[channel] ?? 0)) > least);
                // The most frequent colour is that of the background.
                const counts = new Map<string, number>();
                for (let i = 0; i < a.data.length; i += 4) {
                    const key = pixel(a, i).join();
                    counts.set(key, (counts.get(key) ?? 0) + 1);
                }
                const first = [...counts].reduce((p, q) => (q[1] > p[1] ? q : p))[0];
                const background = first.split(",").map(Number);
                let [drawn, different] = [0, 0];
                for (let i = 0; i < a.data.length; i += 4) {
                    const [p, q] = [pixel(a, i), pixel(b, i)];
                    drawn += Number(differ(p, background) || differ(q, background));
                    different += Number(differ(p, q));
                }
                return { drawn, different };
            },
            { pngs: [one, other].map((png) => png.toString("base64")), least: LEAST_DIFFERENCE },
        );
    }
}
