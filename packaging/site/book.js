// Of every page: where mdBook's search finds its files. The policy of the site allows no script in a page.
"use strict";
window.path_to_root = document.documentElement.dataset.root;
window.path_to_searchindex_js = document.documentElement.dataset.index;
