// SPDX-License-Identifier: Apache-2.0
// A sandboxed processor: BullMQ loads this file in a process, or a thread, of its own.
"use strict";

module.exports = async function (job) {
  if (job.name === "fail") throw new Error("sandboxed failure");
  await job.log("summing");
  await job.updateProgress(50);
  const sum = job.data.numbers.reduce((a, b) => a + b, 0);
  await job.updateData({ numbers: [], used: true });
  return { sum, pid: process.pid };
};
