'use strict';
// Asks for the page again and again, and brings what it shows up to date.
const pause = 2000;
const kept = 90;
const rates = new Map();

function draw(shown) {
  for (const trend of shown.querySelectorAll('svg.trend')) {
    const history = rates.get(trend.dataset.key) || [];
    history.push(Number(trend.dataset.value));
    rates.set(trend.dataset.key, history.slice(-kept));
    const most = Math.max(1e-9, ...history);
    const points = history.slice(-kept).map((value, place, all) =>
      `${kept - all.length + place},${(31 - 28 * value / most).toFixed(2)}`);
    trend.firstElementChild.setAttribute('d', points.length > 1 ? 'M' + points.join('L') : '');
  }
}

// Changes only what differs, so that a selection, a scrolled text and the focus stay.
function update(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  if (old.matches('svg.trend')) return;
  const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
  after.forEach((node, place) => {
    if (place < before.length) update(before[place], node);
    else old.append(node);
  });
  before.slice(after.length).forEach((node) => node.remove());
}

async function poll() {
  const notice = document.getElementById('notice');
  if (!document.hidden) {
    try {
      const answer = await fetch('', { cache: 'no-store' });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
      const shown = document.getElementById('shown');
      update(shown, fresh.getElementById('shown'));
      draw(shown);
      notice.hidden = true;
    } catch (error) {
      if (notice.hidden) {
        notice.textContent = `No answer since ${new Date().toLocaleTimeString()}: ${error.message}. The figures are of then.`;
        notice.hidden = false;
      }
    }
  }
  setTimeout(poll, pause);
}

draw(document);
setTimeout(poll, pause);
