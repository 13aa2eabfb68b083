// SPDX-License-Identifier: Apache-2.0
// The console's charts: lines of the last values. Loaded before console.js, whose helpers it uses
// once that is there.
'use strict';

const HISTORY = 120;  // points of a chart

const COLOURS = [
  '#0ea5a4', '#f59e0b', '#8b5cf6', '#ef4444', '#3b82f6', '#84cc16', '#ec4899', '#64748b', '#14b8a6',
  '#a16207', '#6366f1'
];

class Chart {
  // lines: their names; show: value -> text
  constructor(id, lines, show) {
    this.canvas = $(id);
    this.lines = lines;
    this.show = show;
    this.points = [];  // each [value of line 0, ...]; null: none
  }
  add(values) {
    this.points.push(values);
    if (this.points.length > HISTORY) this.points.shift();
    this.draw();
  }
  draw() {
    const {canvas} = this;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (width === 0) return;  // not shown
    const scale = window.devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const g = canvas.getContext('2d');
    g.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const soft = style.getPropertyValue('--soft');
    g.font = '12px system-ui, sans-serif';
    const left = 76;
    const bottom = height - 22;
    const values = this.points.flat().filter((v) => v !== null);
    const top = roundUp(Math.max(...values, 1e-9));
    const y = (v) => bottom - (v / top) * (bottom - 8);
    const x = (i) =>
        left + ((i + HISTORY - this.points.length) / (HISTORY - 1)) * (width - left - 4);
    g.strokeStyle = style.getPropertyValue('--line');
    g.fillStyle = soft;
    g.textAlign = 'right';
    for (const part of [0, 0.5, 1]) {
      g.beginPath();
      g.moveTo(left, y(top * part));
      g.lineTo(width, y(top * part));
      g.stroke();
      g.fillText(this.show(top * part), left - 6, y(top * part) + 4);
    }
    g.textAlign = 'left';
    let at = left;
    this.lines.forEach((name, n) => {
      g.strokeStyle = g.fillStyle = COLOURS[n];
      g.lineWidth = 2;
      g.lineJoin = 'round';
      g.beginPath();
      let is_down = false;
      this.points.forEach((point, i) => {
        if (point[n] === null) {
          is_down = false;
        } else if (is_down) {
          g.lineTo(x(i), y(point[n]));
        } else {
          g.moveTo(x(i), y(point[n]));
          is_down = true;
        }
      });
      g.stroke();
      const last = this.points.at(-1)?.[n] ?? null;
      const label = `${name} ${last === null ? '–' : this.show(last)}`;
      g.fillRect(at, height - 12, 10, 10);
      g.fillStyle = soft;
      g.fillText(label, at + 15, height - 3);
      at += g.measureText(label).width + 34;
    });
    canvas.setAttribute('role', 'img');
    canvas.setAttribute(
        'aria-label',
        this.lines.map((name, n) => `${name}: ${this.show(this.points.at(-1)?.[n] ?? 0)}`)
            .join(', '));
  }
}

function roundUp(value) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].find((step) => step * unit >= value) * unit;
}
