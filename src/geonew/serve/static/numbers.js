// Numbers for people: few digits, powers of ten as such.

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

export function format(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const power = Math.floor(Math.log10(Math.abs(value)));
  if (power >= -3 && power < 5) {
    const text = Number(value.toPrecision(digits)).toString();
    return text.replace("-", "−");
  }
  const mantissa = Number((value / 10 ** power).toPrecision(digits)).toString().replace("-", "−");
  const raised = [...String(power)].map((c) => RAISED[c]).join("");
  return `${mantissa}·10${raised}`;
}

export const percent = (value) =>
  value === null || value === undefined ? "–" : `${format(100 * value, 2)} %`;

export const milliseconds = (seconds) =>
  seconds < 1 ? `${Math.round(1000 * seconds)} ms` : `${format(seconds, 2)} s`;
