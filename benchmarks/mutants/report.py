def write_page(root, every, results): pass
