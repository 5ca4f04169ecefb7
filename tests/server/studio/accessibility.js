// What is wrong with a page for somebody who cannot see it, cannot use a mouse, or sees little. A list of sentences.
() => {
  const problems = [];
  const visible = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const all = (selector) => [...document.querySelectorAll(selector)].filter(visible);
  const named = (element) => `<${element.tagName.toLowerCase()} class="${element.className.baseVal ?? element.className}"> “${(element.textContent ?? "").trim().slice(0, 40)}”`;

  function referred(element, attribute) {
    return (element.getAttribute(attribute) ?? "").split(/\s+/).filter(Boolean).map((id) => document.getElementById(id));
  }

  function name(element) {
    const by = referred(element, "aria-labelledby").map((each) => each?.textContent ?? "").join(" ").trim();
    if (by) return by;
    const label = element.getAttribute("aria-label")?.trim();
    if (label) return label;
    const labels = [...(element.labels ?? [])].map((each) => each.textContent).join(" ").trim();
    if (labels) return labels;
    if (element.tagName === "IMG") return element.alt;
    if (["INPUT", "TEXTAREA", "SELECT"].includes(element.tagName)) return "";
    return (element.textContent ?? "").trim();
  }

  // Names.
  for (const element of all("a[href], button, input, select, textarea, summary, [role=tab], [role=switch], dialog, nav, aside, section, [role=tabpanel], [role=log]")) {
    if (!name(element) && element.tagName !== "SECTION") problems.push(`has no name: ${named(element)}`);
  }
  for (const element of all("img:not([alt])")) problems.push(`has no alternative: ${named(element)}`);
  for (const element of all("svg")) {
    const hidden = element.getAttribute("aria-hidden") === "true";
    if (!hidden && !(element.getAttribute("role") === "img" && element.getAttribute("aria-label"))) problems.push("a drawing is neither hidden nor described");
  }

  // Structure.
  if (!document.documentElement.lang) problems.push("the page does not say its language");
  if (!document.title.trim()) problems.push("the page has no title");
  if (all("h1").length !== 1) problems.push(`the page has ${all("h1").length} headings of the first level`);
  let level = 0;
  for (const heading of all("h1, h2, h3, h4, h5, h6")) {
    const next = Number(heading.tagName[1]);
    if (next > level + 1 && !heading.closest("dialog")) problems.push(`heading level ${level} is followed by ${next}: ${named(heading)}`);
    level = next;
  }
  if (all("main").length !== 1) problems.push("there is not one main part");
  for (const element of document.body.children) {
    if (visible(element) && element.textContent.trim() && !element.matches(".skip, .frame, [role=status], dialog")) problems.push(`stands outside every landmark: ${named(element)}`);
  }
  for (const list of all("ul, ol")) {
    for (const child of list.children) if (child.tagName !== "LI") problems.push(`a list holds a ${child.tagName}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  for (const id of new Set(ids)) if (ids.filter((each) => each === id).length > 1) problems.push(`two elements are called ${id}`);
  for (const attribute of ["aria-labelledby", "aria-describedby", "aria-controls", "for"]) {
    for (const element of all(`[${attribute}]`)) if (referred(element, attribute).includes(null)) problems.push(`${attribute} leads nowhere: ${named(element)}`);
  }
  for (const list of all("[role=tablist]")) {
    const chosen = [...list.querySelectorAll("[role=tab][aria-selected=true]")];
    if (chosen.length !== 1 || chosen[0].tabIndex !== 0) problems.push(`${chosen.length} tabs are chosen in ${named(list)}`);
  }

  // Keyboard and touch.
  for (const element of all("[tabindex]")) if (element.tabIndex > 0) problems.push(`is out of order for the keyboard: ${named(element)}`);
  for (const element of all("a a, a button, button a, button button, label button")) problems.push(`stands inside another control: ${named(element)}`);
  for (const element of all("[onclick]")) problems.push(`has a script of its own: ${named(element)}`);
  for (const element of all("button, input, select, textarea, nav a, summary")) {
    const { width, height } = element.getBoundingClientRect();
    const aimed = element.type === "checkbox" ? element.parentElement.getBoundingClientRect() : { width, height };
    if (aimed.width < 24 || aimed.height < 18) problems.push(`is too small to hit: ${named(element)} ${Math.round(width)}×${Math.round(height)}`);
  }

  // Contrast.
  const numbers = (colour) => {
    const [red, green, blue, alpha = 1] = colour.match(/[\d.]+/g).map(Number);
    return { red, green, blue, alpha };
  };
  const over = (top, under) => Object.fromEntries(["red", "green", "blue"].map((part) => [part, top[part] * top.alpha + under[part] * (1 - top.alpha)]).concat([["alpha", 1]]));
  const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const luminance = ({ red, green, blue }) => 0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue);
  const contrast = (one, other) => {
    const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  function ground(element) {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const colour = numbers(getComputedStyle(each).backgroundColor);
      if (colour.alpha > 0) layers.push(colour);
      if (colour.alpha === 1) break;
    }
    return layers.reverse().reduce((under, top) => over(top, under), { red: 255, green: 255, blue: 255, alpha: 1 });
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || seen.has(element) || !visible(element) || element.closest(":disabled, noscript, .hidden-label, .skip")) continue;
    seen.add(element);
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const found = contrast(over(numbers(style.color), ground(element)), ground(element));
    if (found < least) problems.push(`contrast ${found.toFixed(2)} instead of ${least}: ${named(element)}`);
  }
  for (const element of all("input[type=text], input[type=search], input[type=password], textarea, select")) {
    const edge = contrast(numbers(getComputedStyle(element).borderTopColor), ground(element.parentElement));
    if (edge < 3) problems.push(`its edge has contrast ${edge.toFixed(2)}: ${named(element)}`);
    if (!element.placeholder) continue;
    const hint = contrast(numbers(getComputedStyle(element, "::placeholder").color), ground(element));
    if (hint < 4.5) problems.push(`its placeholder has contrast ${hint.toFixed(2)}: ${named(element)}`);
  }
  return problems;
}
