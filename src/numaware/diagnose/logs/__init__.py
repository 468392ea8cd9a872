"""What a kubelet wrote down: from bytes to lines, from lines to records, from records to what happened."""
