"""Everybody can use the page: names, contrast, the keyboard alone, narrow screens; in each mode, light and dark."""
import json

import pytest

from conftest import GOLDENS
from page_fixtures import chromium, page, serve, show, sounds  # noqa: F401

MODES = [("translator", "translate"), ("demo", "summarise"), ("demo", "prompt"), ("whisper", "transcribe"), ("reader", "read")]
FRENCH = "Le marché ouvre à sept heures le samedi. On y trouve du pain."
# Roles of which a screen reader says the name.
NAMED = {"button", "link", "textbox", "combobox", "checkbox", "radio", "spinbutton", "tab", "tabpanel", "region", "dialog",
         "article", "image", "img", "DisclosureTriangle", "option", "heading"}

# Texts that are shown, whose colour is too close to what lies behind them. Controls that are off do not count (WCAG 1.4.3).
CONTRAST = """(() => {
  const parse = (text) => {
    const canvas = parse.canvas ??= new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return {rgb: [r, g, b], alpha: a / 255};
  };
  const over = (top, under) => top.rgb.map((x, i) => x * top.alpha + under[i] * (1 - top.alpha));
  const behind = (e) => {
    if (!e) return [255, 255, 255];
    const colour = parse(getComputedStyle(e).backgroundColor);
    return colour.alpha === 1 ? colour.rgb : over(colour, behind(e.parentElement));
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((x) => (x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const found = [];
  const check = (e, colour, text) => {
    if (!text.trim() || !e.checkVisibility() || e.closest(':disabled, svg, .visually-hidden, option')) return;
    const style = getComputedStyle(e), back = behind(e), size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    const value = ratio(over(parse(colour), back), back);
    if (value < least) found.push(`${text.trim().slice(0, 30)}: ${value.toFixed(2)}`);
    check.seen += 1;
  };
  check.seen = 0;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) check(walk.currentNode.parentElement, getComputedStyle(walk.currentNode.parentElement).color, walk.currentNode.data);
  for (const e of document.querySelectorAll('input, textarea, select')) {
    check(e, getComputedStyle(e).color, e.value);
    if (e.placeholder) check(e, getComputedStyle(e, '::placeholder').color, e.placeholder);
  }
  return {found, seen: check.seen};
})()"""

# Broken references, and things that are twice or in the wrong order.
STRUCTURE = """(() => {
  const found = [], ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
  for (const id of new Set(ids)) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push('twice: ' + id);
  for (const name of ['for', 'aria-labelledby', 'aria-describedby', 'aria-controls'])
    for (const e of document.querySelectorAll(`[${name}]`))
      for (const id of e.getAttribute(name).split(' ')) if (!document.getElementById(id)) found.push(`${name}: ${id}`);
  for (const e of document.querySelectorAll('[tabindex]')) if (e.tabIndex > 0) found.push('tabindex ' + e.outerHTML.slice(0, 60));
  for (const tag of ['h1', 'main', 'header', 'footer']) if (document.querySelectorAll(tag).length !== 1) found.push('not one ' + tag);
  for (const e of document.querySelectorAll('[role=group], [role=tablist], fieldset, nav'))
    if (!e.getAttribute('aria-label') && !e.querySelector(':scope > legend')) found.push('a group without a name');
  if (document.documentElement.lang !== 'en') found.push('no language');
  let level = 0;
  for (const e of document.querySelectorAll('h1, h2, h3, h4')) {
    if (!e.checkVisibility()) continue;
    if (+e.tagName[1] > level + 1) found.push('heading left out: ' + e.textContent);
    level = +e.tagName[1];
  }
  for (const e of document.querySelectorAll('button, select, input:not(.visually-hidden), textarea, summary, label.button')) {
    if (!e.checkVisibility()) continue;
    const {width, height} = e.getBoundingClientRect(), small = e.matches('[type=checkbox], [type=radio]');
    if (!small && (width < 24 || height < 24)) found.push(`${width} by ${height}: ${e.outerHTML.slice(0, 60)}`);
  }
  return found;
})()"""
STICKS_OUT = ("[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && e.getClientRects().length &&"
              "!e.closest('pre, .spark, .visually-hidden, .skip') && (e.getBoundingClientRect().right > innerWidth + 0.5 ||"
              "e.getBoundingClientRect().left < -0.5)).map(e => e.outerHTML.slice(0, 80))")


def use(chromium, mode, sounds):  # noqa: F811
    """Makes each mode show an answer."""
    if mode in ("translate", "summarise"):
        chromium.type("#%s-source" % mode, FRENCH)
        chromium.click("#%s-go" % mode)
        chromium.wait("document.querySelector('#%s-facts').textContent !== ''" % mode)
    elif mode == "prompt":
        chromium.click("[value=compare]")
        chromium.click("#generate")
        chromium.wait("document.querySelector('.run') && !document.querySelector('#generate').disabled")
    elif mode == "transcribe":
        chromium.choose_file("#file", sounds / "short.wav")
        chromium.click("#transcribe-go")
        chromium.wait("document.querySelector('.said[aria-busy=\"false\"]') !== null")
    else:
        chromium.choose_file("#image", GOLDENS.parent / "vision-tiny" / "image_0.png")
        chromium.wait("document.querySelector('.reading[aria-busy=\"false\"]') !== null")
    for fold in ("#request", "#engine", ".options"):
        chromium.value("document.querySelectorAll('%s').forEach(d => { d.open = true; })" % fold)
    chromium.wait("document.querySelector('#running').textContent !== '–'")


def fail(chromium, mode, tmp_path):
    """Makes each mode show an error."""
    if mode in ("translate", "summarise"):
        chromium.type("#%s-source" % mode, "")
        chromium.click("#%s-go" % mode)
    elif mode == "prompt":
        chromium.type("#prompt", "")
        chromium.click("#generate")
    elif mode == "transcribe":
        chromium.value("document.querySelectorAll('#chosen button').forEach(b => b.click())")
        chromium.click("#transcribe-go")
    else:
        (tmp_path / "no.png").write_text("no image")
        chromium.choose_file("#image", tmp_path / "no.png")
    chromium.wait("[...document.querySelectorAll('[aria-invalid]')].length === 1")
    chromium.errors.clear()


def nameless(chromium):
    """Nodes that a screen reader has no words for."""
    return [json.dumps([node["role"]["value"], node.get("backendDOMNodeId")]) for node in chromium.tree()
            if node["role"]["value"] in NAMED and not node.get("name", {}).get("value", "").strip()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("model, mode", MODES)
def test_names_contrast_and_structure(page, chromium, sounds, tmp_path, model, mode, scheme):
    page(model, mode, scheme=scheme)

    def check():
        contrast = chromium.value(CONTRAST)
        assert contrast["found"] == [] and contrast["seen"] > 10
        assert chromium.value(STRUCTURE) == []
        assert nameless(chromium) == []

    check()
    use(chromium, mode, sounds)
    check()
    fail(chromium, mode, tmp_path)
    check()
    described = chromium.value("(() => { const e = document.querySelector('[aria-invalid]'); return e.getAttribute('aria-describedby')"
                               ".split(' ').map(id => document.getElementById(id).textContent).join(' '); })()")
    assert len(described.strip()) > 10, "the field's error is part of its description"


@pytest.mark.parametrize("width", [320, 400, 768])
@pytest.mark.parametrize("model, mode", MODES)
def test_nothing_sticks_out(page, chromium, sounds, model, mode, width):
    page(model, mode, width=width, height=740)
    for used in (False, True):
        if used:
            use(chromium, mode, sounds)
        assert chromium.value("document.documentElement.scrollWidth") <= width
        assert chromium.value(STICKS_OUT) == []
        assert chromium.value("[...document.querySelectorAll('.card, .run, .field, .foot, .counts, .modes span, .bar, .pane-foot, button')]"
                              ".filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.outerHTML.slice(0, 80))") == []


@pytest.mark.parametrize("model, mode", MODES)
def test_the_keyboard_goes_everywhere(page, chromium, model, mode):
    """Tab visits every control once, in the order in which they stand, and each shows that it has the focus."""
    page(model, mode)
    wanted = chromium.value("""[...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')]
        .filter((e) => e.checkVisibility() && !e.disabled && e.tabIndex >= 0 && !e.closest('dialog'))
        .filter((e) => e.type !== 'radio' || e.checked).map((e) => (e.dataset.at = document.querySelectorAll('[data-at]').length))""")
    visited = []
    for _ in range(len(wanted)):
        chromium.press("Tab")
        at, seen = chromium.value("""(() => { const e = document.activeElement, ring = (x) => x && getComputedStyle(x);
            const shown = [e, e.nextElementSibling, e.previousElementSibling, e.closest('.pane')].map(ring)
                .some((s) => s && (s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2 || s.boxShadow !== 'none'));
            return [Number(e.dataset.at ?? -1), shown]; })()""")
        visited.append(at)
        assert seen, chromium.value("document.activeElement.outerHTML.slice(0, 100)")
    assert visited == wanted


def test_a_translation_by_keyboard_alone(page, chromium):
    page("translator")
    focus = "document.activeElement.id"
    for _ in range(40):
        if chromium.value(focus) == "translate-source":
            break
        chromium.press("Tab")
    chromium.command("Input.insertText", text=FRENCH)
    chromium.press("Enter", ctrl=True)
    chromium.wait("document.querySelector('#translate-facts').textContent !== ''")
    assert chromium.text("#translate-output")
    assert chromium.value(focus) == "translate-source"
    assert chromium.text("#announce") == "The translation is complete."
    for _ in range(40):
        if chromium.value(focus) == "translate-go":
            break
        chromium.press("Tab")
    chromium.press(" ")
    chromium.wait("document.querySelector('#translate-facts').textContent !== ''")
    assert chromium.value(focus) == "translate-go", "the focus comes back"


def test_tabs_by_keyboard(page, chromium):
    page("demo")
    chromium.value("document.querySelector('#tab-summarise').focus()")
    chromium.press("ArrowRight")
    assert chromium.value("[document.activeElement.id, document.querySelector('#prompt-mode').hidden]") == ["tab-prompt", False]
    chromium.press("ArrowRight")
    assert chromium.value("document.activeElement.id") == "tab-summarise"


def test_the_answer_is_said_once(page, chromium):
    """An answer that streams would be read piece by piece: only its end is announced."""
    page("translator")
    live = chromium.value("[...document.querySelectorAll('[aria-live], [role=status], [role=alert]')].map(e => e.id || e.className)")
    assert "announce" in live and not any("output" in name or name == "runs" for name in live)
    assert chromium.value("document.querySelector('#translate-output').getAttribute('aria-busy')") == "false"


def test_motion_is_left_out_on_request(page, chromium):
    page("demo")
    chromium.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    assert chromium.value("document.getAnimations().length") == 0
    chromium.value("document.querySelector('#summarise-output').setAttribute('aria-busy', 'true')")
    chromium.value("document.querySelector('#summarise-output').textContent = 'words'")
    assert chromium.value("getComputedStyle(document.querySelector('#summarise-output'), '::after').animationName") == "none"
    chromium.command("Emulation.setEmulatedMedia", features=[])
