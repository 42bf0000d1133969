// Light or dark: as the system is, until the button of a page chooses otherwise; other pages and later visits follow.
"use strict";

const THEME_KEY = "fedorbit-theme";
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = storedTheme();

const systemTheme = () => (darkSystem.matches ? "dark" : "light");

// A browser may refuse to store anything, or to say what is stored: a choice is then for one page.
function storedTheme() {
  try {
    return ["light", "dark"].find((theme) => theme === localStorage.getItem(THEME_KEY)) ?? null;
  } catch {
    return null;
  }
}

function chooseTheme(theme) {
  chosenTheme = theme === systemTheme() ? null : theme;
  try {
    if (chosenTheme === null) localStorage.removeItem(THEME_KEY);
    else localStorage.setItem(THEME_KEY, chosenTheme);
  } catch { /* not stored */ }
  showTheme();
}

function showTheme() {
  const root = document.documentElement, theme = chosenTheme ?? systemTheme(), button = document.getElementById("theme");
  root.dataset.theme = theme;
  if (button) {
    const other = theme === "dark" ? "light" : "dark";
    button.hidden = false;
    button.textContent = other === "dark" ? "Dark" : "Light";
    button.onclick = () => chooseTheme(other);
  }
  document.dispatchEvent(new Event("theme-shown"));
}

showTheme();
document.addEventListener("DOMContentLoaded", showTheme);
darkSystem.addEventListener("change", showTheme);
addEventListener("storage", () => { chosenTheme = storedTheme(); showTheme(); });
