// QR codes (ISO/IEC 18004), as far as addresses need them: bytes, error correction M, versions 1 to 10. Nothing is sent anywhere.

import { svg } from "./dom.js";

/** For each version: codewords of error correction in a block, and blocks (table 9, level M). */
const CORRECTION = [10, 16, 26, 18, 24, 16, 18, 22, 22, 26];
const BLOCKS = [1, 1, 1, 2, 2, 4, 4, 4, 5, 5];
/** The light modules that a reader needs around a code. */
const QUIET = 4;

/** A code as a picture with that name; null if the text is too long for one. */
export function qrCode(text, name) {
    const rows = modules(text);
    if (!rows) return null;
    const size = rows.length + 2 * QUIET;
    const path = rows.flatMap((row, y) => row.map((isDark, x) => (isDark ? `M${x + QUIET},${y + QUIET}h1v1h-1z` : ""))).join("");
    return svg("svg", { viewBox: `0 0 ${size} ${size}`, class: "qr", role: "img", "aria-label": name, "shape-rendering": "crispEdges" },
        svg("rect", { width: size, height: size }), svg("path", { d: path }));
}

/** The rows of dark (true) and light modules; null if the text is too long. `mask`: for tests, else the best one. */
export function modules(text, mask) {
    const bytes = [...new TextEncoder().encode(text)];
    const version = CORRECTION.findIndex((_, index) => bytes.length <= capacity(index + 1)) + 1;
    if (version === 0) return null;
    const codewords = interleaved(data(bytes, version), version);
    const masks = mask === undefined ? [0, 1, 2, 3, 4, 5, 6, 7] : [mask];
    const codes = masks.map((one) => drawn(codewords, version, one));
    return codes.reduce((best, one) => (penalty(one) < penalty(best) ? one : best));
}

/** Codewords of data and of correction. */
function codewordCount(version) {
    let bits = (16 * version + 128) * version + 64;
    if (version >= 2) {
        const lines = Math.floor(version / 7) + 2;
        bits -= (25 * lines - 10) * lines - 55;
        if (version >= 7) bits -= 36;
    }
    return Math.floor(bits / 8);
}

function dataCount(version) {
    return codewordCount(version) - CORRECTION[version - 1] * BLOCKS[version - 1];
}

/** Bytes of a text, without the mode and the length. */
function capacity(version) {
    return dataCount(version) - (version < 10 ? 2 : 3);
}

/** Mode, length, bytes and padding (§7.4). */
function data(bytes, version) {
    const bits = [];
    const push = (value, count) => {
        for (let bit = count - 1; bit >= 0; bit -= 1) bits.push((value >>> bit) & 1);
    };
    push(4, 4);
    push(bytes.length, version < 10 ? 8 : 16);
    bytes.forEach((byte) => push(byte, 8));
    push(0, 4);
    const words = [];
    for (let at = 0; at + 8 <= bits.length; at += 8) words.push(parseInt(bits.slice(at, at + 8).join(""), 2));
    for (let pad = 0xec; words.length < dataCount(version); pad ^= 0xec ^ 0x11) words.push(pad);
    return words;
}

/** A product in the field of 256 elements with the polynomial 0x11d. */
function product(x, y) {
    let z = 0;
    for (let bit = 7; bit >= 0; bit -= 1) {
        z = (z << 1) ^ ((z >>> 7) * 0x11d);
        z ^= ((y >>> bit) & 1) * x;
    }
    return z;
}

/** The generator of Reed and Solomon of that degree, without its first coefficient. */
function generator(degree) {
    const result = new Array(degree - 1).fill(0).concat(1);
    let root = 1;
    for (let turn = 0; turn < degree; turn += 1) {
        for (let at = 0; at < degree; at += 1) {
            result[at] = product(result[at], root) ^ (result[at + 1] ?? 0);
        }
        root = product(root, 2);
    }
    return result;
}

function correction(words, divisor) {
    const rest = divisor.map(() => 0);
    for (const word of words) {
        const factor = word ^ rest.shift();
        rest.push(0);
        divisor.forEach((coefficient, at) => {
            rest[at] ^= product(coefficient, factor);
        });
    }
    return rest;
}

/** Blocks with their correction, one codeword of each in turn (§7.6). */
function interleaved(words, version) {
    const [count, degree] = [BLOCKS[version - 1], CORRECTION[version - 1]];
    const short = Math.floor(words.length / count);
    const shortBlocks = count - (words.length % count);
    const divisor = generator(degree);
    const blocks = [];
    for (let at = 0; blocks.length < count;) {
        const length = short + (blocks.length < shortBlocks ? 0 : 1);
        blocks.push(words.slice(at, at + length));
        at += length;
    }
    const corrections = blocks.map((block) => correction(block, divisor));
    const inTurn = (all, most) => Array.from({ length: most }, (_, at) => all.map((block) => block[at])).flat().filter((word) => word !== undefined);
    return inTurn(blocks, short + 1).concat(inTurn(corrections, degree));
}

function drawn(codewords, version, mask) {
    const size = version * 4 + 17;
    const grid = Array.from({ length: size }, () => new Array(size).fill(undefined));
    const set = (x, y, isDark) => {
        if (x >= 0 && y >= 0 && x < size && y < size) grid[y][x] = Boolean(isDark);
    };
    drawPatterns(set, version, size);
    drawFormat(set, mask, size);
    const isFree = grid.map((row) => row.map((module) => module === undefined));
    let bit = 0;
    // Two columns at a time, up and down in turn, from the right; the column of the timing pattern is passed over (§7.7.3).
    for (let right = size - 1; right >= 1; right -= 2) {
        if (right === 6) right = 5;
        for (let step = 0; step < size; step += 1) {
            const y = ((right + 1) & 2) === 0 ? size - 1 - step : step;
            for (const x of [right, right - 1].filter((one) => isFree[y][one])) {
                const value = ((codewords[bit >>> 3] ?? 0) >>> (7 - (bit & 7))) & 1;
                grid[y][x] = Boolean(value) !== MASKS[mask](x, y);
                bit += 1;
            }
        }
    }
    return grid;
}

const MASKS = [
    (x, y) => (x + y) % 2 === 0,
    (x, y) => y % 2 === 0,
    (x) => x % 3 === 0,
    (x, y) => (x + y) % 3 === 0,
    (x, y) => (Math.floor(x / 3) + Math.floor(y / 2)) % 2 === 0,
    (x, y) => ((x * y) % 2) + ((x * y) % 3) === 0,
    (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2 === 0,
    (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2 === 0,
];

/** Timing, finders, alignment and version (§6.3). */
function drawPatterns(set, version, size) {
    for (let at = 0; at < size; at += 1) {
        set(6, at, at % 2 === 0);
        set(at, 6, at % 2 === 0);
    }
    const ring = (centreX, centreY, radius, isDark) => {
        for (let dy = -radius; dy <= radius; dy += 1) {
            for (let dx = -radius; dx <= radius; dx += 1) set(centreX + dx, centreY + dy, isDark(Math.max(Math.abs(dx), Math.abs(dy))));
        }
    };
    for (const [x, y] of [[3, 3], [size - 4, 3], [3, size - 4]]) ring(x, y, 4, (far) => far !== 2 && far !== 4);
    const centres = alignment(version, size);
    const last = centres.length - 1;
    centres.forEach((x, column) => centres.forEach((y, row) => {
        const isFinder = (column === 0 && (row === 0 || row === last)) || (column === last && row === 0);
        if (!isFinder) ring(x, y, 2, (far) => far !== 1);
    }));
    if (version < 7) return;
    let rest = version;
    for (let turn = 0; turn < 12; turn += 1) rest = (rest << 1) ^ ((rest >>> 11) * 0x1f25);
    const bits = (version << 12) | rest;
    for (let at = 0; at < 18; at += 1) {
        const [x, y] = [size - 11 + (at % 3), Math.floor(at / 3)];
        set(x, y, (bits >>> at) & 1);
        set(y, x, (bits >>> at) & 1);
    }
}

/** The rows and columns of alignment patterns (annex E). */
function alignment(version, size) {
    if (version === 1) return [];
    const count = Math.floor(version / 7) + 2;
    const step = Math.ceil((version * 4 + 4) / (count * 2 - 2)) * 2;
    return [6].concat(Array.from({ length: count - 1 }, (_, at) => size - 7 - (count - 2 - at) * step));
}

/** Error correction and mask, twice, and the module that is always dark (§7.9). Level M is 00. */
function drawFormat(set, mask, size) {
    let rest = mask;
    for (let turn = 0; turn < 10; turn += 1) rest = (rest << 1) ^ ((rest >>> 9) * 0x537);
    const bits = ((mask << 10) | rest) ^ 0x5412;
    const bit = (at) => (bits >>> at) & 1;
    for (let at = 0; at < 15; at += 1) {
        if (at < 8) {
            set(8, at < 6 ? at : at + 1, bit(at));
            set(size - 1 - at, 8, bit(at));
        } else {
            set(at === 8 ? 7 : 14 - at, 8, bit(at));
            set(8, size - 15 + at, bit(at));
        }
    }
    set(8, size - 8, true);
}

/** The features that make a code hard to read (§7.8.3). */
function penalty(grid) {
    const size = grid.length;
    const columns = grid.map((_, x) => grid.map((row) => row[x]));
    let sum = 0;
    for (const line of grid.concat(columns)) {
        const text = line.map(Number).join("");
        for (const run of text.match(/0{5,}|1{5,}/g) || []) sum += run.length - 2;
        for (let at = 0; at + 11 <= size; at += 1) {
            const part = text.slice(at, at + 11);
            if (part === "10111010000" || part === "00001011101") sum += 40;
        }
    }
    for (let y = 1; y < size; y += 1) {
        for (let x = 1; x < size; x += 1) {
            const one = grid[y][x];
            if (grid[y - 1][x] === one && grid[y][x - 1] === one && grid[y - 1][x - 1] === one) sum += 3;
        }
    }
    const dark = grid.flat().filter(Boolean).length;
    return sum + Math.floor(Math.abs((dark * 20) / (size * size) - 10)) * 10;
}
