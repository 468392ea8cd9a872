"""Findings, messages, reasons and sentences in Chinese; what is missing here is told in English."""
