"""Recordings run again: does every decision come out equal, why did a pod go where it went, and what if?"""
