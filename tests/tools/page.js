// SPDX-License-Identifier: BSD-3-Clause
// page.js -- runs the script of a page of peerpin report --html without a browser, and prints its document as lines
//
// usage: node page.js PAGE. Exit status 1: the script failed, or a chart's datasets differ in length from its labels.
"use strict";
const page = require("fs").readFileSync(process.argv[2], "utf8");
const scripts = [...page.matchAll(/<script(?: type="application\/json" id="report")?>([^]*?)<\/script>/g)].map((match) => match[1]);

function element(tag) {
	return {
		tag, children: [], attributes: {}, className: "", textContent: "",
		appendChild(child) { this.children.push(child); return child; },
		append(text) { this.children.push(Object.assign(element("text"), { textContent: text })); },
		setAttribute(name, value) { this.attributes[name] = value; },
		get tBodies() { return this.children.filter((child) => child.tag === "tbody"); },
		get rows() { return this.children; },
	};
}

const main = element("main");
global.document = { documentElement: element("html"), title: "", createElement: element,
	getElementById: (id) => id === "main" ? main : { textContent: scripts[0] } };
global.getComputedStyle = () => ({ getPropertyValue: (name) => name });
global.matchMedia = () => ({ addEventListener() {} });
global.addEventListener = () => {};
global.Chart = class {
	constructor(canvas, config) {
		const labels = config.data.labels.length, { scales, plugins } = config.options;
		for (const set of config.data.datasets) {
			if (set.data.length !== labels && set.data.length)
				throw new Error(`${set.label}: ${set.data.length} values, ${labels} labels`);
			if (String(set.backgroundColor).includes("undefined"))
				throw new Error(`${set.label}: no colour`);
		}
		scales.y.ticks.callback(1);
		for (const index of labels ? [0, labels - 1] : []) {
			for (const dataset of config.data.datasets.filter((set) => set.data.length && plugins.tooltip && plugins.tooltip.callbacks.label))
				plugins.tooltip.callbacks.label({ dataset, raw: dataset.data[index], dataIndex: index });
		}
		canvas.textContent = `${config.data.datasets.map((set) => set.label).join(",")} x ${labels}`;
	}
};
eval(scripts[2]);

function print(node) {
	if (node.textContent)
		console.log(`<${node.tag}${node.className ? " " + node.className : ""}> ${node.textContent}`);
	node.children.forEach(print);
}
console.log(`<title> ${document.title}`);
print(main);
