// Numbers and times as people read them.

const whole = new Intl.NumberFormat('en');

/** The order of names, with numbers in them as people count: s2 before s10. */
export const byName = new Intl.Collator('en', { numeric: true }).compare;

/** 0.5, 12, 3,201, 1.2 M. */
export function count(value: number): string {
  if (value >= 999_500) return `${(value / 1e6).toPrecision(3)} M`;
  if (value >= 10 || Number.isInteger(value)) return whole.format(Math.round(value));
  return value.toFixed(1);
}

export function bytes(value: number): string {
  const units = ['B', 'KB', 'MB', 'GB', 'TB'];
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 10 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** Of something that is 0 to 1; two digits after the point only where a whole number would hide what is missing. */
export function percent(part: number): string {
  const value = part * 100;
  if (value > 99 && value < 100) return `${Math.min(value, 99.99).toFixed(2)} %`;
  return `${value < 10 && value > 0 ? value.toFixed(1) : Math.round(value)} %`;
}

/** How many times something else. */
export function times(ratio: number): string {
  return `${ratio.toFixed(2)} ×`;
}

/** The time of day, in the viewer's zone. */
export function clock(unix_s: number): string {
  const date = new Date(unix_s * 1000);
  const two = (n: number) => String(n).padStart(2, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export function duration(ms: number): string {
  const s = Math.round(ms / 1000);
  if (s < 120) return `${s} s`;
  return s < 7200 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`;
}

/** 850 µs, 1.2 ms, 340 ms, 2.5 s. */
export function micros(us: number): string {
  if (us < 1000) return `${Math.round(us)} µs`;
  const ms = us / 1000;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(1)} s`;
}

export function counted(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** Keys often begin alike and differ at their ends. */
export function shortened(key: string, length = 19): string {
  return key.length <= length ? key : `${key.slice(0, length - 13)}…${key.slice(-12)}`;
}
